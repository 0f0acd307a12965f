(** The sampler as a program: what the running one is compared with (sampler_oracle.ml, tests/sampler_oracle.py). *)

From Coq Require Import ZArith Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZBigInt.
Require Import Draws Exponent Sampler.

Extraction "sampler.ml" run refine exact_log decide_below exact_sampler.
