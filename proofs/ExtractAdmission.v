(** Admission as a program: the oracle that the doors are compared with (doors.ml, tests/door_oracle.py). *)

From Coq Require Import ZArith Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZBigInt.
Require Import Admission.

Extraction "admission.ml" fixed nobody happens nothing_came moves.
