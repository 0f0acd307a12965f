(** Quotas: accounts of the rest and one sub-account for each quota pay at most ε together. *)

From Coq Require Import ZArith List Bool Lia.
Require Import Ledger Lost Invariant Payments Trace.
Import ListNotations.
Open Scope Z_scope.

Section Quota.
Variable cfg : config.
Hypothesis epsilon_range : 0 <= epsilon cfg <= LARGEST.
Hypothesis top_range : 0 <= top cfg.
Hypothesis period_range : 0 <= period cfg.

Notation held := (held cfg).
Notation step := (step cfg).
Notation trace := (trace cfg).

Definition assigns (x : action) : bool := match x with Assign _ _ => true | _ => false end.

(** The rest, and the sub-accounts: a quota of nothing at first, which may grow out of the rest. *)
Inductive pools : state -> list state -> Prop :=
  | opens : forall n, pools (start 0) (repeat (start (epsilon cfg)) n)
  | rest_moves : forall r l x r' out, pools r l -> assigns x = false -> step r x = Some (r', out) -> pools r' l
  | sub_moves : forall r l s l' x s' out, pools r (l ++ s :: l') -> assigns x = false -> step s x = Some (s', out) ->
      pools r (l ++ s' :: l')
  | quota_grows : forall r l s l' more bound r' s' out out', pools r (l ++ s :: l') -> 0 <= more ->
      debits 0 (paid r) <= bound -> levied 0 (levies (now r)) <= bound ->
      step r (Assign (assigned (now r) + more) bound) = Some (r', out) ->
      step s (Assign (assigned (now s) - more) 0) = Some (s', out') -> pools r' (l ++ s' :: l').

Lemma assigned_stays : forall st x st' out, assigns x = false -> step st x = Some (st', out) ->
  assigned (now st') = assigned (now st).
Proof.
  intros st x st' out A E. destruct x; cbn [Ledger.step] in E; try discriminate A.
  1-2: destruct (_ && _) in E; [|discriminate]; try destruct (weights_by_class _ _ _ _ _); unfold settle, pay in E;
    destruct (_ <=? 0) in E; [|destruct (_ <? _) in E; [discriminate|]]; injection E as <- _; reflexivity.
  - destruct (0 <=? units); [|discriminate]. injection E as <- _. reflexivity.
  - injection E as <- _. reflexivity.
  - destruct (nth_error (copies st) number) as [[c bt]|]; [|discriminate]. destruct (_ && _) in E; [|discriminate].
    injection E as <- _. cbn. destruct (existsb _ _); reflexivity.
Qed.

Lemma assign_sets : forall st n b st' out, step st (Assign n b) = Some (st', out) -> assigned (now st') = n.
Proof. intros st n b st' out E. cbn in E. destruct (_ && _) in E; [|discriminate]. injection E as <- _. reflexivity. Qed.

Lemma sum_cons : forall x l, sum (x :: l) = x + sum l.
Proof. reflexivity. Qed.

Definition quotas (l : list state) : Z := sum (map (fun s => held (now s)) l).

Lemma quotas_app : forall l s l', quotas (l ++ s :: l') = quotas l + held (now s) + quotas l'.
Proof. intros. unfold quotas. rewrite map_app, sum_app. cbn [map]. rewrite sum_cons. lia. Qed.

Lemma pools_invariant : forall r l, pools r l ->
  trace r /\ (forall s, In s l -> trace s) /\ held (now r) = epsilon cfg - quotas l.
Proof.
  induction 1 as [n|r l x r' out _ (T & Ts & Q) A E|r l s l' x s' out _ (T & Ts & Q) A E
    |r l s l' more bound r' s' out out' _ (T & Ts & Q) M B1 B2 E E'].
  - split; [constructor; lia|]. split; [intros s S; apply repeat_spec in S; subst; constructor; lia|].
    unfold Ledger.held at 1. cbn. enough (quotas (repeat (start (epsilon cfg)) n) = 0) by lia.
    induction n; [reflexivity|]. unfold quotas in *. cbn [repeat map]. rewrite sum_cons, IHn. unfold Ledger.held. cbn. lia.
  - split; [apply (goes_on cfg r x r' out T); [destruct x; cbn; auto; discriminate|exact E]|]. split; [assumption|].
    unfold Ledger.held at 1. rewrite (assigned_stays _ _ _ _ A E). exact Q.
  - split; [assumption|]. split.
    + intros y Y. apply in_app_or in Y as [Y|[<-|Y]]; [apply Ts, in_or_app; now left| |apply Ts, in_or_app; right; now right].
      apply (goes_on cfg s x s' out); [apply Ts, in_or_app; right; now left|destruct x; cbn; auto; discriminate|exact E].
    + rewrite quotas_app in *. assert (held (now s') = held (now s)) by (unfold Ledger.held; now rewrite (assigned_stays _ _ _ _ A E)).
      lia.
  - split; [apply (goes_on cfg r (Assign (assigned (now r) + more) bound) r' out T); [right; auto|exact E]|]. split.
    + intros y Y. apply in_app_or in Y as [Y|[<-|Y]]; [apply Ts, in_or_app; now left| |apply Ts, in_or_app; right; now right].
      apply (goes_on cfg s (Assign (assigned (now s) - more) 0) s' out'); [apply Ts, in_or_app; right; now left|left; lia|exact E'].
    + rewrite quotas_app in *.
      assert (held (now r') = held (now r) - more) by (unfold Ledger.held; rewrite (assign_sets _ _ _ _ _ E); lia).
      assert (held (now s') = held (now s) + more) by (unfold Ledger.held; rewrite (assign_sets _ _ _ _ _ E'); lia). lia.
Qed.

(** What all sub-accounts and the account of the rest have lost together is at most ε. *)
Theorem quotas_keep_epsilon : forall r l, pools r l -> forall k,
  losses k (paid r) + sum (map (fun s => losses k (paid s)) l) <= epsilon cfg * GRAINS.
Proof.
  intros r l P k. destruct (pools_invariant r l P) as (T & Ts & Q).
  pose proof (ledger_keeps_held cfg epsilon_range top_range period_range r T k) as R.
  assert (S : sum (map (fun s => losses k (paid s)) l) <= quotas l * GRAINS).
  { clear Q P. induction l as [|s l IH]; cbn; [lia|].
    pose proof (ledger_keeps_held cfg epsilon_range top_range period_range s (Ts s (or_introl eq_refl)) k).
    specialize (IH (fun y Y => Ts y (or_intror Y))). unfold quotas, sum in *. lia. }
  lia.
Qed.

End Quota.
