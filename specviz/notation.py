"""One place for the letters: what docstrings, figures and page mean by them.

Distributions   p target · q proposer · e what is emitted, all after warping. H(p) entropy, KL(p‖q), TV(p, q) in nats and as fractions.
Dimensions      n    tokens of one pass, or nodes of one tree (the root is node 0)
                V    entries of the target's LM head, padding included
                d    width of the hidden state
                L    cached tokens before the pass (the context)
Shapes stand in signatures, with jaxtyping, under these names: "n V", "n d".
"""

EQUATIONS = {
    "acceptance": "P(accept x) = min(1, p(x) / q(x))",  # Leviathan et al. 2023, eq. 1
    "residual": "p′ = (p − q)₊ / Σ(p − q)₊",  # Leviathan et al. 2023, section 2.3
    "alpha": "α = Σ min(p, q) = 1 − TV(p, q)",  # Leviathan et al. 2023, theorem 3.5
    "typical": "p(x) > min(ε, δ·e^(−H(p)))",  # Cai et al. 2024 (Medusa), section 2.3.1
    "emitted": "KL(e‖p) = Σ e ln(e/p)",  # e: what a rule emits at a place, given the text before it (analysis/typical.py); 0 where lossless
    "tokens_per_step": "E[tokens] = (1 − α^(K+1)) / (1 − α)",  # Leviathan et al. 2023, eq. 1; assumes independent acceptances
    "intensity": "FLOP / byte; ridge = peak FLOP/s ÷ bandwidth",  # Williams et al. 2009
}
