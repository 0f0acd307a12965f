(** Prints what is proved, and what it rests on. *)

From Coq Require Import Reals ZArith List.
Require Import Ledger Lost Invariant Payments Trace Quota Laplace Mass Promise Tight Draws Sampler.

Open Scope R_scope.

Check ledger_keeps_epsilon.
Check quotas_keep_epsilon.
Check promise.
Check promise_is_tight.
Check exact_sampler_law.
Print Assumptions ledger_keeps_epsilon.
Print Assumptions quotas_keep_epsilon.
Print Assumptions promise.
Print Assumptions promise_by_epochs.
Print Assumptions promise_for_sets.
Print Assumptions promise_under_replacement.
Print Assumptions promise_is_tight.
Print Assumptions step_mass_sums_to_one.
Print Assumptions exact_sampler_law.
Print Assumptions exact_sampler_share.
Print Assumptions float_sampler_law.

(** Admission: which rows are in which slot. *)
Require Import Admission.
Check others_rows_alone.
Check batch_alone.
Print Assumptions others_slots.
Print Assumptions others_rows_alone.
Print Assumptions batch_alone.
Print Assumptions others_batches_alone.
