(** The promise is not vacuous: one user in one slot, whose loss is all of ε. *)

From Coq Require Import Reals ZArith List Lra Lia.
Require Import Ledger Lost Invariant Payments Trace Laplace Promise.
Import ListNotations.
Open Scope R_scope.

Definition one : config :=
  {| epsilon := UNITS; top := 0; period := 0; policy := fun _ => GRAINS; by_class := fun _ => false |}.
Definition once : strategy :=
  {| act := fun past => PayPolicy 1 (Z.of_nat (length past)) UNITS 1 1 false true;
     present := fun _ => true; adds := fun _ w => [w]; the_others := fun _ => [[0%Z]] |}.
Definition seen_once : list output := [[[GRAINS]]].

Lemma once_public : public_strategy once.
Proof.
  split; [|split].
  - intros past. exact I.
  - intros past p [<-|[]]. reflexivity.
  - intros past w W. split; [intros x [<-|[]]; exact W|cbn; lia].
Qed.

(** ε = 1, and the transcript is e times as likely with u as without. *)
Theorem promise_is_tight :
  public_strategy once /\ period one = 0%Z /\ epsilon one = UNITS /\ 0 < Pr_S' one once seen_once /\
  Pr_S one once seen_once = exp (IZR (epsilon one) / IZR UNITS) * Pr_S' one once seen_once.
Proof.
  split; [exact once_public|]. split; [reflexivity|]. split; [reflexivity|].
  assert (G : (0 < GRAINS)%Z) by exact GRAINS_pos.
  assert (W : snd (spends one once (start 0) (@nil (list (list Z)))) = (O, GRAINS, [GRAINS])) by (vm_compute; reflexivity).
  unfold Pr_S, Pr_S', seen_once. cbn [Pr]. unfold step_mass, histograms, takes_part. cbn [account_after]. rewrite W.
  cbn [snd add_at add measured act once map slot_likelihood the_others likelihood].
  set (r := rate UNITS). assert (R : 0 < r) by (apply rate_pos; reflexivity).
  split; [rewrite !Rmult_1_l, !Rmult_1_r; now apply mass_pos|].
  rewrite !Rmult_1_l, !Rmult_1_r. replace (GRAINS - (0 + GRAINS))%Z with 0%Z by lia. rewrite Z.sub_0_r.
  unfold mass. change (Z.abs 0) with 0%Z. replace (Z.abs GRAINS) with GRAINS by lia. rewrite Rmult_0_r, exp_0.
  assert (U : 0 < IZR UNITS) by (apply IZR_lt; reflexivity). assert (Gr : 0 < IZR GRAINS) by (now apply IZR_lt).
  change (epsilon one) with UNITS.
  replace (- r * IZR GRAINS) with (- (IZR UNITS / IZR UNITS)) by (unfold r, rate; field; lra).
  rewrite exp_Ropp. pose proof (exp_pos (IZR UNITS / IZR UNITS)). pose proof (ratio_range r R). field. lra.
Qed.
