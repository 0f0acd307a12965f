(** The ledger as a program: the oracle that the running code is compared with (oracle.ml, tests/ledger_oracle.py). *)

From Coq Require Import ZArith Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZBigInt.
Require Import Ledger.

Extraction "ledger.ml" start step left_at payments.
