(** Every weight can be paid, and a slot that is paid keeps the invariant. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Require Import Ledger Lost Invariant.
Import ListNotations.
Open Scope Z_scope.

Section Payments.
Variable cfg : config.
Hypothesis epsilon_range : 0 <= epsilon cfg <= LARGEST.
Hypothesis top_range : 0 <= top cfg.
Hypothesis period_range : 0 <= period cfg.

Notation epoch_of := (epoch_of cfg).
Notation left_at := (left_at cfg).
Notation class_of := (class_of cfg).
Notation held := (held cfg).
Notation first_lost := (first_lost cfg).
Notation step := (step cfg).
Notation invariant := (invariant cfg).
Notation reached := (reached cfg).

(** ** Weights can be paid *)

Lemma weight_range : forall g, 0 <= weight g <= GRAINS.
Proof. intros. unfold weight. pose proof GRAINS_pos. lia. Qed.

Lemma weight_le : forall whole here g x e, 0 <= e -> 0 <= x -> (0 < g -> e * g <= x) ->
  let w := if (here : bool) then weight (whole_or_none whole g) else 0 in 0 <= w <= GRAINS /\ e * w <= x.
Proof.
  intros whole here g x e E X G. cbv zeta. destruct here; [|split; [pose proof GRAINS_pos|]; lia].
  split; [apply weight_range|]. unfold whole_or_none, weight. pose proof GRAINS_pos.
  destruct (whole && (g <? GRAINS)); [nia|]. destruct (Z.le_gt_cases g 0); [nia|]. specialize (G H0). nia.
Qed.

Lemma policy_pays : forall a k e num den, 0 <= e -> 0 < num <= den ->
  0 < weights_by_policy cfg a k e num den -> weights_by_policy cfg a k e num den <= GRAINS ->
  e * weights_by_policy cfg a k e num den <= left_at a k * GRAINS.
Proof.
  intros a k e num den E N. unfold weights_by_policy. destruct (Z.eqb_spec e 0); [lia|].
  pose proof (left_nonneg cfg a k). pose proof (part_le (left_at a k) num den ltac:(lia) N). pose proof GRAINS_pos.
  destruct (Z.ltb_spec (part (left_at a k) num den) e); intros G1 G2; [|nia].
  pose proof (affordable_pays (policy cfg (active (view k (table a)))) (part (left_at a k) num den) e ltac:(lia)). nia.
Qed.

Lemma class_pays : forall a s k groups price grains, weights_by_class cfg a s k groups = (price, grains) -> 0 <= price ->
  0 <= snd (due (class_of a s k) groups) <= SHARE_STEPS ->
  price * grains <= parts (left_at a k) (snd (due (class_of a s k) groups)) * GRAINS.
Proof.
  intros a s k groups price grains W P D. unfold weights_by_class in W.
  destruct (due (class_of a s k) groups) as [p f]. cbn [snd] in *. injection W as <- <-.
  pose proof (parts_le (left_at a k) f (left_nonneg cfg a k) D). pose proof GRAINS_pos.
  destruct (Z.ltb_spec 0 (parts (left_at a k) f)); [|nia]. destruct (Z.ltb_spec (parts (left_at a k) f) p); [|nia].
  apply affordable_pays. lia.
Qed.

Lemma asks_ge : forall l m, (forall x, In x l -> 0 <= snd x) -> forall acc,
  get 0 m acc <= get 0 m (fold_left bump l acc) /\ (forall f, In (m, f) l -> f <= get 0 m (fold_left bump l acc)).
Proof.
  induction l as [|[x g] l IH]; intros m P acc; cbn [fold_left]; [split; [lia|intros f []]|].
  destruct (IH m (fun y Y => P y (or_intror Y)) (bump acc (x, g))) as [A B].
  assert (C : get 0 m acc <= get 0 m (bump acc (x, g)))
    by (unfold bump; cbn; rewrite get_set; destruct (Z.eqb_spec x m); subst; lia).
  split; [lia|]. intros f [E|J]; [|auto]. injection E as -> ->.
  assert (f <= get 0 m (bump acc (m, f))) by (unfold bump; cbn; rewrite get_set, Z.eqb_refl; lia). lia.
Qed.

Lemma asks_range : forall l acc, (forall x, In x l -> 0 <= snd x <= SHARE_STEPS) ->
  (forall m, 0 <= get 0 m acc <= SHARE_STEPS) -> forall m, 0 <= get 0 m (fold_left bump l acc) <= SHARE_STEPS.
Proof.
  induction l as [|[x g] l IH]; intros acc P A m; cbn [fold_left]; [auto|].
  apply IH; [intros y Y; apply P; now right|]. intros m'. unfold bump; cbn. rewrite get_set.
  destruct (x =? m'); [|auto]. specialize (P (x, g) (or_introl eq_refl)). specialize (A x). cbn in P. lia.
Qed.

Lemma get_in : forall (l : list (Z * Z)) m, has m l = true -> In (m, get 0 m l) l.
Proof.
  induction l as [|[x b] l IH]; intros m H; [discriminate|]. cbn in *. destruct (Z.eqb_spec x m); [subst; now left|].
  right. now apply IH.
Qed.

Lemma due_spec : forall groups m, well_asked cfg groups = true ->
  0 <= fst (due m groups) /\
  (snd (due m groups) = 0 \/ In (m, snd (due m groups)) (concat (map snd groups))).
Proof.
  induction groups as [|[p cl] groups IH]; intros m W; [cbn; split; [lia|now left]|].
  cbn in W. apply andb_true_iff in W as [W1 W2]. apply andb_true_iff in W1 as [W1 W3]. apply Z.leb_le in W1. cbn.
  destruct (has m cl) eqn:H.
  - cbn. split; [assumption|]. right. apply in_or_app. left. now apply get_in.
  - destruct (IH m W2) as [A [B|B]]; split; auto. right. apply in_or_app. now right.
Qed.

Lemma well_asked_steps : forall groups x, well_asked cfg groups = true -> In x (concat (map snd groups)) -> 0 < snd x <= SHARE_STEPS.
Proof.
  intros groups x W I. apply in_concat in I as [cl [I J]]. apply in_map_iff in I as [g [<- I]].
  unfold well_asked in W. rewrite forallb_forall in W. specialize (W g I). apply andb_true_iff in W as [_ W].
  rewrite forallb_forall in W. specialize (W x J). rewrite !andb_true_iff in W. destruct W as [[_ W1] W2].
  apply Z.ltb_lt in W1. apply Z.leb_le in W2. lia.
Qed.

(** A slot that is in turn is paid: no account refuses a bill that the ledger wrote, and the invariant stays. *)
Lemma pay_policy_keeps : forall st s t e num den whole here, invariant st ->
  in_turn cfg (now st) s t && negb (by_class cfg s) && (0 <=? e) && (0 <? num) && (num <=? den) && (den <=? SHARE_STEPS) = true ->
  exists st' out, step st (PayPolicy s t e num den whole here) = Some (st', out) /\ invariant st'.
Proof.
  intros st s t e num den whole here I G. cbn [Ledger.step]. rewrite G.
  rewrite !andb_true_iff in G. destruct G as [[[[[T B] E] N1] N2] _].
  apply negb_true_iff in B. apply Z.leb_le in E, N2. apply Z.ltb_lt in N1.
  set (g := weights_by_policy cfg (now st) (epoch_of t) e num den).
  set (w := if here then weight (whole_or_none whole g) else 0).
  replace (if here then weight (whole_or_none whole g) else 0) with w by reflexivity.
  assert (W : 0 <= w <= GRAINS /\ e * w <= left_at (now st) (epoch_of t) * GRAINS).
  { pose proof (left_nonneg cfg (now st) (epoch_of t)). pose proof GRAINS_pos.
    destruct here; subst w; [|split; lia]. split; [apply weight_range|].
    pose proof (policy_pays (now st) (epoch_of t) e num den E ltac:(lia)) as P. fold g in P.
    unfold whole_or_none, weight. destruct (whole && (g <? GRAINS)); [nia|].
    destruct (Z.le_gt_cases g 0); [nia|]. destruct (Z.le_gt_cases g GRAINS); [specialize (P H1 H2); nia|].
    unfold g, weights_by_policy in *. destruct (Z.eqb_spec e 0); [nia|].
    pose proof (part_le (left_at (now st) (epoch_of t)) num den ltac:(lia) ltac:(lia)).
    destruct (Z.ltb_spec (part (left_at (now st) (epoch_of t)) num den) e); [|nia].
    pose proof (affordable_pays (policy cfg (active (view (epoch_of t) (table (now st)))))
                  (part (left_at (now st) (epoch_of t)) num den) e ltac:(lia)). nia. }
  destruct W as [W1 W2]. pose proof (debit_le e w _ W2) as D.
  assert (D' : debit e w <= e) by (apply debit_le; nia).
  set (seen' := {| largest := largest (seen st); restored := restored (seen st);
                   billed := set s (get 0 s (billed (seen st)) + e) (billed (seen st)) |}).
  destruct (pay_accepted cfg (now st) s t e w D) as (a' & cost & P).
  destruct (settle cfg st s t e w seen') as [[st' out]|] eqn:Q; [|unfold settle in Q; rewrite P in Q; discriminate].
  exists st', out. split; [reflexivity|].
  apply (settle_keeps cfg epsilon_range top_range period_range st s t e w seen' 0 e st' out); auto; try lia; try (intros; lia).
  - apply (i_shares _ _ I).
  - intros x m. apply Z.le_refl.
  - intros x. cbn [billed seen']. rewrite get_set. destruct (Z.eqb_spec s x); subst; lia.
  - rewrite B. cbn [billed seen']. rewrite get_set, Z.eqb_refl. repeat split; auto; lia.
Qed.

Lemma pay_class_keeps : forall st s t groups whole here, invariant st ->
  in_turn cfg (now st) s t && by_class cfg s && well_asked cfg groups = true ->
  exists st' out, step st (PayClass s t groups whole here) = Some (st', out) /\ invariant st'.
Proof.
  intros st s t groups whole here I G. cbn [Ledger.step]. rewrite G.
  rewrite !andb_true_iff in G. destruct G as [[T B] Wa].
  destruct (weights_by_class cfg (now st) s (epoch_of t) groups) as [price g] eqn:W.
  set (m := class_of (now st) s (epoch_of t)).
  set (f := snd (due m groups)).
  destruct (due_spec groups m Wa) as [P0 Du]. fold f in Du.
  assert (Price : price = fst (due m groups))
    by (unfold weights_by_class in W; fold m in W; destruct (due m groups); now injection W).
  assert (F : 0 <= f <= SHARE_STEPS).
  { pose proof STEPS_pos. destruct Du as [->|Du]; [lia|]. pose proof (well_asked_steps groups _ Wa Du). cbn in H0. lia. }
  pose proof (class_pays _ _ _ _ _ _ W ltac:(lia) F) as C. fold m f in C.
  pose proof (left_nonneg cfg (now st) (epoch_of t)) as Ln. pose proof (parts_le _ f Ln F) as Pf. pose proof GRAINS_pos as Gp.
  set (w := if here then weight (whole_or_none whole g) else 0).
  destruct (weight_le whole here g (parts (left_at (now st) (epoch_of t)) f * GRAINS) price ltac:(lia) ltac:(nia) ltac:(auto))
    as [W1 W2]. fold w in W1, W2.
  pose proof (debit_le price w _ W2) as D.
  set (seen' := {| largest := set s (asks groups (get [] s (largest (seen st)))) (largest (seen st));
                   restored := restored (seen st); billed := billed (seen st) |}).
  destruct (pay_accepted cfg (now st) s t price w ltac:(lia)) as (a' & cost & P).
  destruct (settle cfg st s t price w seen') as [[st' out]|] eqn:Q; [|unfold settle in Q; rewrite P in Q; discriminate].
  exists st', out. split; [reflexivity|].
  assert (Pos : forall x, In x (concat (map snd groups)) -> 0 <= snd x)
    by (intros x X; pose proof (well_asked_steps groups x Wa X); lia).
  apply (settle_keeps cfg epsilon_range top_range period_range st s t price w seen' f 0 st' out); auto; try lia; try (intros; lia).
  - intros x m'. unfold share_of. cbn [largest seen']. rewrite get_set. destruct (Z.eqb_spec s x).
    + subst. apply asks_range; [intros y Y; pose proof (well_asked_steps groups y Wa Y); lia|]. apply (i_shares _ _ I).
    + apply (i_shares _ _ I).
  - intros x m'. unfold share_of. cbn [largest seen']. rewrite get_set. destruct (Z.eqb_spec s x); [|lia].
    subst. apply (proj1 (asks_ge _ m' Pos _)).
  - intros x. apply Z.le_refl.
  - rewrite B. split; [assumption|]. split; [lia|]. unfold share_of. cbn [largest seen']. rewrite get_set, Z.eqb_refl. fold m.
    destruct Du as [->|Du]; [|apply (proj2 (asks_ge _ m Pos _)), Du].
    apply asks_range; [intros y Y; pose proof (well_asked_steps groups y Wa Y); lia|]. apply (i_shares _ _ I).
Qed.

End Payments.
