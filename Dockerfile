# SpecViz in a container. For the CPU:    docker build -t specviz .                          docker run --rm -p 7860:7860 specviz
#                 For NVIDIA GPUs:        docker build -t specviz --build-arg DEVICE=cuda .  docker run --rm -p 7860:7860 --gpus all specviz
FROM python:3.12-slim

# cpu: torch's CPU build. cuda: the build of the package index, which brings its CUDA libraries along, so the plain Python image serves
# for both; a particular one is named like cu130.
ARG DEVICE=cpu

RUN useradd --create-home --uid 1000 user
USER user
ENV HOME=/home/user \
    PATH=/home/user/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False
WORKDIR /home/user/app

# uv knows where torch's builds are kept; pip would take the CUDA build for the CPU too, which is some gigabytes larger.
COPY --chown=user requirements.txt constraints.txt ./
RUN python -m venv /home/user/venv && pip install uv \
    && case "$DEVICE" in cuda) backend= ;; *) backend="--torch-backend=$DEVICE" ;; esac \
    && uv pip install --no-cache --python /home/user/venv/bin/python $backend --requirement requirements.txt --constraint constraints.txt

COPY --chown=user . .
# The embedded model goes into the image, so that a container starts without a network.
RUN python -m specviz fetch

EXPOSE 7860
CMD ["python", "app.py"]
