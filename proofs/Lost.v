(** Lost slots: what is charged for slots that an old copy has forgotten covers whatever they can have taken. *)

From Coq Require Import ZArith List Bool Lia.
Require Import Ledger.
Import ListNotations.
Open Scope Z_scope.

Section Lost.
Variable cfg : config.

Notation walk := (walk cfg).
Notation pays := (pays cfg).
Notation finish := (finish cfg).
Notation advance := (advance cfg).

(** ** Lists of slots *)

Lemma zrange_app : forall n m a, zrange a (n + m) = zrange a n ++ zrange (a + Z.of_nat n) m.
Proof.
  induction n as [|n IH]; intros; cbn [zrange Nat.add app]; [f_equal; lia|].
  rewrite IH. do 2 f_equal. f_equal; lia.
Qed.

Lemma zrange_in : forall n a x, In x (zrange a n) <-> a <= x < a + Z.of_nat n.
Proof.
  induction n as [|n IH]; intros; cbn [zrange In]; [lia|]. rewrite IH. lia.
Qed.

Lemma slots_in : forall a b x, In x (slots_between a b) <-> a <= x <= b.
Proof. intros. unfold slots_between. rewrite zrange_in. lia. Qed.

Lemma slots_split : forall a b c, b <= c ->
  slots_between a c = slots_between a b ++ slots_between (Z.max a (b + 1)) c.
Proof.
  intros. unfold slots_between. destruct (Z.le_gt_cases a (b + 1)).
  - rewrite Z.max_r by lia.
    replace (Z.to_nat (c + 1 - a)) with (Z.to_nat (b + 1 - a) + Z.to_nat (c + 1 - (b + 1)))%nat by lia.
    rewrite zrange_app. do 2 f_equal. lia.
  - rewrite Z.max_l by lia. replace (Z.to_nat (b + 1 - a)) with O by lia. reflexivity.
Qed.

Lemma mem_in : forall x l, mem x l = true <-> In x l.
Proof.
  intros. unfold mem. rewrite existsb_exists. split; [intros [y [H E]]; apply Z.eqb_eq in E; now subst|].
  intros. exists x. split; [assumption|apply Z.eqb_refl].
Qed.

(** ** Lost slots *)

Definition shares_ok (sh : Z -> Z) := forall m, 0 <= sh m <= SHARE_STEPS.

Lemma pays_mono : forall sh sh' h b b' m n, shares_ok sh -> shares_ok sh' -> (forall x, sh x <= sh' x) ->
  b <= b' -> b' <= h -> pays sh h b m n <= pays sh' h b' m n <= h.
Proof.
  intros sh sh' h b b' m n S S' L B H. induction n as [|n IH]; cbn [Ledger.pays]; [lia|].
  apply taken_mono; try lia; [|apply S']. split; [apply S|apply L].
Qed.

Lemma pays_more : forall sh h b m n n', shares_ok sh -> b <= h -> (n <= n')%nat -> pays sh h b m n <= pays sh h b m n'.
Proof.
  intros sh h b m n n' S H L. induction L as [|n' L IH]; [lia|]. cbn [Ledger.pays].
  pose proof (pays_mono sh sh h b b m n' S S ltac:(intros; lia) ltac:(lia) H).
  pose proof (parts_le (h - pays sh h b m n') (sh (Z.min (m + Z.of_nat n') (top cfg))) ltac:(lia) (S _)). lia.
Qed.

Lemma fold_max_ge : forall l b, b <= fold_right Z.max b l /\ forall x, In x l -> x <= fold_right Z.max b l.
Proof.
  induction l as [|y l IH]; intros b; cbn; [split; [lia|tauto]|]. destruct (IH b) as [A B].
  split; [lia|]. intros x [->|I]; [lia|]. specialize (B x I). lia.
Qed.

Lemma fold_max_le : forall l b c, b <= c -> (forall x, In x l -> x <= c) -> fold_right Z.max b l <= c.
Proof.
  induction l as [|y l IH]; intros b c B L; cbn; [lia|]. apply Z.max_lub; [apply L; now left|].
  apply IH; [assumption|]. intros; apply L; now right.
Qed.

Lemma finish_mono : forall sh sh' h own b b' a n, shares_ok sh -> shares_ok sh' -> (forall x, sh x <= sh' x) ->
  b <= b' -> b' <= h -> b <= finish sh h own (b, a, n) <= finish sh' h own (b', a, n) /\ finish sh' h own (b', a, n) <= h.
Proof.
  intros sh sh' h own b b' a n S S' L B H. unfold Ledger.finish. destruct a.
  - split; [split|].
    + apply (proj1 (fold_max_ge _ _)).
    + destruct (fold_max_ge (map (fun m => pays sh' h b' m n) (slots_between 0 (top cfg))) b') as [G1 G2].
      apply fold_max_le; [lia|]. intros x Hx. apply in_map_iff in Hx as [m [<- Hm]].
      transitivity (pays sh' h b' m n); [apply pays_mono; auto|]. apply G2. apply in_map_iff. eauto.
    + apply fold_max_le; [lia|]. intros x Hx. apply in_map_iff in Hx as [m [<- Hm]].
      apply (pays_mono sh' sh' h b' b' m n); auto; lia.
  - pose proof (pays_mono sh sh' h b b' own n S S' L B H).
    pose proof (pays_more sh h b own 0 n S ltac:(lia) ltac:(lia)). cbn in H1. lia.
Qed.

(** A user who began the run in class m0, and paid at most n times in it, is covered by its end. *)
Lemma finish_covers : forall sh h own b a n m0 j, shares_ok sh -> b <= h -> (a = false -> m0 = own) -> 0 <= m0 <= top cfg ->
  (j <= n)%nat -> pays sh h b m0 j <= finish sh h own (b, a, n).
Proof.
  intros sh h own b a n m0 j S B A M J. transitivity (pays sh h b m0 n); [apply pays_more; auto|].
  unfold Ledger.finish. destruct a; [|rewrite A by reflexivity; lia].
  apply (proj2 (fold_max_ge _ _)). apply in_map_iff. exists m0. split; [reflexivity|]. now apply slots_in.
Qed.

Lemma walk_mono : forall sh sh' h own rs l b b' a n, shares_ok sh -> shares_ok sh' -> (forall x, sh x <= sh' x) ->
  b <= b' -> b' <= h ->
  exists c c' d m, fold_left (advance sh h own rs) l (b, a, n) = (c, d, m) /\
    fold_left (advance sh' h own rs) l (b', a, n) = (c', d, m) /\ b <= c <= c' /\ c' <= h.
Proof.
  intros sh sh' h own rs l. induction l as [|t l IH]; intros b b' a n S S' L B H; cbn [fold_left].
  - exists b, b', a, n. repeat split; lia.
  - unfold Ledger.advance at 2 4. destruct (mem t rs).
    + destruct (finish_mono sh sh' h own b b' a (Datatypes.S n) S S' L B H) as [[F1 F2] F3].
      destruct (IH _ _ true O S S' L F2 F3) as (c & c' & d & m & E1 & E2 & E3 & E4).
      exists c, c', d, m. repeat split; auto; lia.
    + apply IH; auto.
Qed.

Lemma advance_plain : forall sh h own rs l b a n, (forall x, In x l -> ~ In x rs) ->
  fold_left (advance sh h own rs) l (b, a, n) = (b, a, (n + length l)%nat).
Proof.
  intros sh h own rs l. induction l as [|t l IH]; intros b a n N; cbn [fold_left length]; [f_equal; lia|].
  unfold Ledger.advance at 2. destruct (mem t rs) eqn:E; [apply mem_in in E; exfalso; apply (N t); [now left|assumption]|].
  rewrite IH by (intros; apply N; now right). f_equal. lia.
Qed.

(** Further slots, after which nothing was restored yet. *)
Lemma walk_more : forall sh h own first last last' rs b a n, last <= last' -> (forall x, In x rs -> x <= last) ->
  walk sh h own first last rs = (b, a, n) ->
  walk sh h own first last' rs = (b, a, (n + length (slots_between (Z.max first (last + 1)) last'))%nat).
Proof.
  intros sh h own first last last' rs b a n L R W. unfold Ledger.walk in *.
  rewrite (slots_split first last last' L), fold_left_app, W.
  apply advance_plain. intros x I J. apply slots_in in I. specialize (R x J). lia.
Qed.

Lemma mem_other : forall x y l, x <> y -> mem x (y :: l) = mem x l.
Proof. intros. unfold mem. cbn. destruct (Z.eqb_spec x y); [contradiction|reflexivity]. Qed.

Lemma advance_other : forall sh h own rs y l r, (forall x, In x l -> x <> y) ->
  fold_left (advance sh h own (y :: rs)) l r = fold_left (advance sh h own rs) l r.
Proof.
  intros sh h own rs y l. induction l as [|t l IH]; intros r N; cbn [fold_left]; [reflexivity|].
  rewrite IH by (intros; apply N; now right). f_equal. unfold Ledger.advance.
  destruct r as [[b a] n]. rewrite mem_other by (apply N; now left). reflexivity.
Qed.

(** A copy goes on after the last slot: from then on users may be in any class. *)
Lemma restore_any_class : forall sh h own first last rs b a n, shares_ok sh -> 0 <= h -> first <= last + 1 ->
  walk sh h own first last rs = (b, a, n) ->
  exists b', walk sh h own first last (last :: rs) = (b', true, O) /\ finish sh h own (b, a, n) <= b' <= h.
Proof.
  intros sh h own first last rs b a n S H F W. unfold Ledger.walk in *.
  assert (B : forall l, exists b a n, fold_left (advance sh h own rs) l (0, mem (first - 1) rs, O) = (b, a, n) /\ 0 <= b <= h).
  { intros l. destruct (walk_mono sh sh h own rs l 0 0 (mem (first - 1) rs) O S S ltac:(intros; lia) ltac:(lia) H)
      as (c & c' & d & m & E1 & E2 & E3 & E4). exists c, d, m. split; [assumption|]. rewrite E1 in E2. injection E2. lia. }
  destruct (Z.eq_dec first (last + 1)) as [E|E].
  - replace (slots_between first last) with (@nil Z) in * by (unfold slots_between; replace (Z.to_nat _) with O by lia; reflexivity).
    cbn in W |- *. injection W as <- <- <-.
    replace (first - 1) with last by lia. unfold mem at 1. cbn [existsb]. rewrite Z.eqb_refl. cbn [orb].
    exists 0. split; [reflexivity|]. split; [|lia].
    unfold Ledger.finish, mem. destruct (existsb (Z.eqb last) rs); [|cbn; lia].
    apply fold_max_le; [lia|]. intros x Hx. apply in_map_iff in Hx as [m [<- _]]. cbn. lia.
  - rewrite (slots_split first (last - 1) last) in * by lia. rewrite fold_left_app in *.
    rewrite mem_other by lia. rewrite (advance_other _ _ _ rs last (slots_between first (last - 1))) by (intros x I; apply slots_in in I; lia).
    destruct (B (slots_between first (last - 1))) as (b1 & a1 & n1 & E1 & R1). rewrite E1 in *.
    replace (slots_between (Z.max first (last - 1 + 1)) last) with [last] in *
      by (unfold slots_between; replace (Z.max first (last - 1 + 1)) with last by lia;
          replace (Z.to_nat (last + 1 - last)) with 1%nat by lia; reflexivity).
    cbn [fold_left] in *. unfold Ledger.advance in *. unfold mem at 1. cbn [existsb]. rewrite Z.eqb_refl. cbn [orb].
    pose proof (finish_mono sh sh h own b1 b1 a1 (Datatypes.S n1) S S ltac:(intros; lia) ltac:(lia) ltac:(lia)) as [_ F1].
    eexists. split; [reflexivity|]. split; [|assumption].
    destruct (mem last rs); [|injection W as <- <- <-; lia].
    assert (b = finish sh h own (b1, a1, Datatypes.S n1) /\ a = true /\ n = O) as (-> & -> & ->) by (now inversion W).
    generalize (finish sh h own (b1, a1, Datatypes.S n1)). intros f. unfold Ledger.finish. apply fold_max_le; [lia|].
    intros x Hx. apply in_map_iff in Hx as [m [<- _]]. cbn [Ledger.pays]. lia.
Qed.

End Lost.
