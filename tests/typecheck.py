"""How types are checked in the test run: an int is a float too (PEP 484's numeric tower)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
