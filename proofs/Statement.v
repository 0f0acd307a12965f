(** Prints what is proved, and what it rests on. *)

From Coq Require Import Reals ZArith List.
Require Import Ledger Lost Invariant Payments Trace Quota Compression Bounds Epochs Laplace Mass Promise Store StorePromise Public Tight Draws Sampler.

Open Scope R_scope.

Check ledger_keeps_epsilon.
Check quotas_keep_epsilon.
Check promise.
Check promise_is_tight.
Check store_loses_what_verify_prints.
Check promise_of_a_store.
Check what_is_printed_is_public.
Check exact_sampler_law.
Print Assumptions ledger_keeps_epsilon.
Print Assumptions quotas_keep_epsilon.
Print Assumptions promise.
Print Assumptions promise_by_epochs.
Print Assumptions promise_for_sets.
Print Assumptions promise_under_replacement.
Print Assumptions promise_is_tight.
Print Assumptions step_mass_sums_to_one.
Print Assumptions compressed_adds_its_weight.
Print Assumptions stated_covers.
Print Assumptions stated_with_past_covers.
Print Assumptions store_loses_what_verify_prints.
Print Assumptions promise_of_a_store.
Print Assumptions promise_of_all_pools.
Print Assumptions promise_of_a_store_for_sets.
Print Assumptions what_is_printed_is_public.
Print Assumptions what_is_refused_is_public.
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
