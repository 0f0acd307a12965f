(** Compression: what the rows of one user add to the histograms of a slot ([dpi.histogram.compression]).

    Rows are counts by code: of bins, of texts, or (amounts) of steps above zero, steps below zero, and zeros. Every rule
    adds at most the weight to each histogram, whatever the rows are. *)

From Coq Require Import ZArith List Bool Lia.
Require Import Ledger Lost Invariant.
Import ListNotations.
Open Scope Z_scope.

Definition rows := list nat.
Definition counts (l : rows) : list Z := map Z.of_nat l.

(** [normalise]: bin b gets floor(w · r_b / r). *)
Definition normalised (w : Z) (l : rows) : list Z := map (fun rb => proportional w rb (sum (counts l))) (counts l).

(** [truncate]: each of at most c events gets floor(w / c). Of more than c events the first c of an order count, which
    may be any function of the user's own rows; in the program it is that of keyed hashes. *)
Definition times (n : nat) (events : list nat) : list Z := map (fun b => Z.of_nat (count_occ Nat.eq_dec events b)) (seq 0 n).
Definition truncated (c : nat) (order : rows -> list nat) (w : Z) (l : rows) : list Z :=
  let kept := if sum (counts l) <=? Z.of_nat c then counts l else times (length l) (firstn c (order l)) in
  map (fun k => k * (w / Z.of_nat c)) kept.

(** [totals]: the bin of the sum of all steps gets the weight. [cuts] are the public edges of the grid. *)
Definition bin_of (cuts : list Z) (x : Z) : nat := length (filter (fun c => c <=? x) cuts).
Definition steps (l : rows) : Z := Z.of_nat (nth 0 l O) - Z.of_nat (nth 1 l O).
Definition totalled (cuts : list Z) (w : Z) (l : rows) : list Z :=
  map (fun b => if Nat.eqb b (bin_of cuts (steps l)) then w else 0) (seq 0 (S (length cuts))).

(** Texts: at most [most] of a user's different texts are kept, by any function of the user's own rows. The user's weight
    is spread over them; the texts outside of the universe are the first code, which is dropped before noise. *)
Definition only (kept : list nat) (l : rows) : rows :=
  map (fun b => if existsb (Nat.eqb b) kept then nth b l O else O) (seq 0 (length l)).
Definition of_texts (most : nat) (choice : rows -> list nat) (w : Z) (l : rows) : list Z :=
  tl (normalised w (only (firstn most (choice l)) l)).
(** The same rows by listed values: [place] says which bin a text is counted in. *)
Definition of_values (most : nat) (choice : rows -> list nat) (place : nat -> nat) (bins : nat) (w : Z) (l : rows) : list Z :=
  let kept := only (firstn most (choice l)) l in
  normalised w (map (fun b => fold_right plus O (map (fun i => if Nat.eqb (place i) b then nth i kept O else O)
                                                     (seq 0 (length kept)))) (seq 0 bins)).

(** Blocks of bins are measured instead of bins: [place] says which block a bin is in. *)
Definition blocks (place : nat -> nat) (number : nat) (c : list Z) : list Z :=
  map (fun b => sum (map (fun i => if Nat.eqb (place i) b then nth i c 0 else 0) (seq 0 (length c)))) (seq 0 number).

(** How the rows of a slot are counted, and what a price is divided into: one histogram, or one of listed values and one
    of texts, which get a public part of the price each. *)
Inductive rule :=
  | Normalise
  | Truncate (c : nat) (order : rows -> list nat)
  | Totals (cuts : list Z)
  | Texts (most : nat) (choice : rows -> list nat)
  | ValuesAndTexts (most : nat) (choice : rows -> list nat) (place : nat -> nat) (bins : nat) (for_texts : Z -> Z)
  | Blocks (place : nat -> nat) (number : nat) (r : rule).

Fixpoint compressed (r : rule) (w : Z) (l : rows) : list (list Z) :=
  match r with
  | Normalise => [normalised w l]
  | Truncate c order => [truncated c order w l]
  | Totals cuts => [totalled cuts w l]
  | Texts most choice => [of_texts most choice w l]
  | ValuesAndTexts most choice place bins _ => [of_values most choice place bins w l; of_texts most choice w l]
  | Blocks place number inner => map (blocks place number) (compressed inner w l)
  end.
Fixpoint divided (r : rule) (price : Z) : list Z :=
  match r with
  | ValuesAndTexts _ _ _ _ for_texts =>
      let part := Z.max 0 (Z.min (for_texts price) price) in [price - part; part]
  | Blocks _ _ inner => divided inner price
  | _ => [price]
  end.

(** What one user adds to one histogram: nothing below zero, and at most the weight together. *)
Definition within (w : Z) (l : list Z) : Prop := (forall x, In x l -> 0 <= x) /\ sum l <= w.

Lemma counts_nonneg : forall l x, In x (counts l) -> 0 <= x.
Proof. intros l x H. apply in_map_iff in H as [n [<- _]]. lia. Qed.

Theorem normalised_adds_its_weight : forall w l, 0 <= w -> within w (normalised w l).
Proof.
  intros w l W. unfold within, normalised. pose proof (sum_nonneg (counts l) (counts_nonneg l)) as N.
  destruct (Z.eq_dec (sum (counts l)) 0) as [E|E].
  - rewrite E, (map_ext _ (fun _ => 0)) by (intros; unfold proportional; apply Zdiv_0_r). rewrite sum_zero.
    split; [|assumption]. intros x H. apply in_map_iff in H as [y [<- _]]. lia.
  - apply compression; [assumption|lia|apply counts_nonneg|lia].
Qed.

Lemma times_all : forall n events, sum (times n events) <= Z.of_nat (length events).
Proof.
  intros n. induction events as [|e events IH].
  - unfold times. cbn [count_occ]. change (fun _ : nat => Z.of_nat 0) with (fun _ : nat => 0). rewrite sum_zero. cbn. lia.
  - assert (A : forall l, NoDup l -> sum (map (fun b => Z.of_nat (count_occ Nat.eq_dec (e :: events) b)) l) <=
                          sum (map (fun b => Z.of_nat (count_occ Nat.eq_dec events b)) l) + (if in_dec Nat.eq_dec e l then 1 else 0)).
    { induction l as [|b l IHl]; intros D; [cbn; lia|]. inversion D as [|? ? D1 D2]; subst. specialize (IHl D2).
      cbn [map]. change (sum (?x :: ?y)) with (x + sum y).
      destruct (Nat.eq_dec e b) as [->|N].
      - rewrite count_occ_cons_eq by reflexivity. destruct (in_dec Nat.eq_dec b l); [contradiction|].
        destruct (in_dec Nat.eq_dec b (b :: l)) as [|C]; [lia|exfalso; apply C; now left].
      - rewrite count_occ_cons_neq by congruence. destruct (in_dec Nat.eq_dec e l), (in_dec Nat.eq_dec e (b :: l)) as [|C]; try lia.
        exfalso. apply C. now right. }
    specialize (A (seq 0 n) (seq_NoDup n 0)). unfold times in *. cbn [length].
    destruct (in_dec Nat.eq_dec e (seq 0 n)); lia.
Qed.

Lemma sum_scaled : forall l k, sum (map (fun x => x * k) l) = sum l * k.
Proof. induction l as [|x l IH]; intros k; cbn; [reflexivity|]. fold (sum (map (fun y => y * k) l)) (sum l). rewrite IH. ring. Qed.

Theorem truncated_adds_its_weight : forall c order w l, (0 < c)%nat -> 0 <= w -> within w (truncated c order w l).
Proof.
  intros c order w l C W. unfold within, truncated.
  set (kept := if sum (counts l) <=? Z.of_nat c then counts l else times (length l) (firstn c (order l))).
  assert (K : (forall x, In x kept -> 0 <= x) /\ sum kept <= Z.of_nat c).
  { unfold kept. destruct (Z.leb_spec (sum (counts l)) (Z.of_nat c)); [split; [apply counts_nonneg|assumption]|]. split.
    - intros x H'. apply in_map_iff in H' as [b [<- _]]. lia.
    - pose proof (times_all (length l) (firstn c (order l))). pose proof (firstn_le_length c (order l)). lia. }
  destruct K as [K1 K2]. assert (Q : 0 <= w / Z.of_nat c) by (apply Z.div_pos; lia). split.
  - intros x H. apply in_map_iff in H as [k [<- H]]. specialize (K1 k H). nia.
  - rewrite sum_scaled. pose proof (Z.mul_div_le w (Z.of_nat c) ltac:(lia)). nia.
Qed.

Theorem totalled_adds_its_weight : forall cuts w l, 0 <= w -> within w (totalled cuts w l).
Proof.
  intros cuts w l W. unfold within, totalled. split.
  - intros x H. apply in_map_iff in H as [b [<- _]]. destruct (Nat.eqb b (bin_of cuts (steps l))); lia.
  - generalize (bin_of cuts (steps l)), (S (length cuts)). intros at_ n.
    assert (A : forall s, NoDup s -> sum (map (fun b => if Nat.eqb b at_ then w else 0) s) <= w).
    { induction s as [|b s IH]; intros D; [cbn; lia|]. inversion D as [|? ? D1 D2]; subst. cbn [map].
      change (sum (?x :: ?y)) with (x + sum y). destruct (Nat.eqb_spec b at_) as [->|N]; [|specialize (IH D2); lia].
      rewrite (map_ext_in _ (fun _ => 0)); [rewrite sum_zero; lia|].
      intros c I. destruct (Nat.eqb_spec c at_); [subst; contradiction|reflexivity]. }
    apply A, seq_NoDup.
Qed.

Lemma within_tail : forall w l, within w l -> within w (tl l).
Proof.
  intros w [|x l] [A B]; [split; assumption|]. split; [intros y Y; apply A; now right|].
  cbn [tl]. change (sum (x :: l)) with (x + sum l) in B. specialize (A x (or_introl eq_refl)). lia.
Qed.

Lemma blocks_within : forall place number w c, within w c -> within w (blocks place number c).
Proof.
  intros place number w c [P S]. unfold blocks. split.
  - intros x X. apply in_map_iff in X as [b [<- _]]. apply sum_nonneg. intros y Y. apply in_map_iff in Y as [i [<- I]].
    apply in_seq in I. destruct (Nat.eqb (place i) b); [|lia]. apply P, nth_In. lia.
  - enough (A : forall l bs, NoDup bs -> (forall i, In i l -> 0 <= nth i c 0) ->
      sum (map (fun b => sum (map (fun i => if Nat.eqb (place i) b then nth i c 0 else 0) l)) bs) <= sum (map (fun i => nth i c 0) l)).
    { specialize (A (seq 0 (length c)) (seq 0 number) (seq_NoDup _ _)).
      assert (E : forall l, map (fun i => nth i l 0) (seq 0 (length l)) = l).
      { induction l as [|x l IH]; [reflexivity|]. cbn [length seq map nth]. f_equal. rewrite <- seq_shift, map_map. exact IH. }
      rewrite E in A. etransitivity; [apply A|exact S]. intros i I. apply in_seq in I. apply P, nth_In. lia. }
    induction l as [|i l IH]; intros bs N Q.
    + rewrite (map_ext _ (fun _ => 0)) by reflexivity. rewrite sum_zero. cbn. lia.
    + specialize (IH bs N (fun j J => Q j (or_intror J))). specialize (Q i (or_introl eq_refl)). cbn [map].
      change (sum (nth i c 0 :: map (fun j => nth j c 0) l)) with (nth i c 0 + sum (map (fun j => nth j c 0) l)).
      enough (sum (map (fun b => sum ((if Nat.eqb (place i) b then nth i c 0 else 0) :: map (fun j => if Nat.eqb (place j) b then nth j c 0 else 0) l)) bs)
              <= nth i c 0 + sum (map (fun b => sum (map (fun j => if Nat.eqb (place j) b then nth j c 0 else 0) l)) bs)) by lia.
      assert (One : sum (map (fun b => if Nat.eqb (place i) b then nth i c 0 else 0) bs) <= nth i c 0).
      { clear IH. induction bs as [|b bs IHb]; [cbn; lia|]. inversion N as [|? ? N1 N2]; subst. cbn [map].
        change (sum (?a :: ?r)) with (a + sum r). destruct (Nat.eqb_spec (place i) b) as [<-|D]; [|specialize (IHb N2); lia].
        rewrite (map_ext_in _ (fun _ => 0)); [rewrite sum_zero; lia|].
        intros d I. destruct (Nat.eqb_spec (place i) d); [subst; contradiction|reflexivity]. }
      clear IH N. induction bs as [|b bs IHb]; [cbn; lia|]. cbn [map] in *.
      change (sum ((if Nat.eqb (place i) b then nth i c 0 else 0) :: map (fun b => if Nat.eqb (place i) b then nth i c 0 else 0) bs))
        with ((if Nat.eqb (place i) b then nth i c 0 else 0) + sum (map (fun b => if Nat.eqb (place i) b then nth i c 0 else 0) bs)) in One.
      set (f := fun b => sum ((if Nat.eqb (place i) b then nth i c 0 else 0) :: map (fun j => if Nat.eqb (place j) b then nth j c 0 else 0) l)) in *.
      set (g := fun b => sum (map (fun j => if Nat.eqb (place j) b then nth j c 0 else 0) l)) in *.
      set (h := fun b => if Nat.eqb (place i) b then nth i c 0 else 0) in *.
      assert (F : forall bs, sum (map f bs) = sum (map h bs) + sum (map g bs)).
      { clear. induction bs as [|b bs IH]; [reflexivity|]. cbn [map]. change (sum (?a :: ?r)) with (a + sum r) in *.
        change (f b + sum (map f bs) = h b + sum (map h bs) + (g b + sum (map g bs))). rewrite IH.
        change (f b) with (h b + g b). lia. }
      change (sum (f b :: map f bs) <= nth i c 0 + sum (g b :: map g bs)). change (sum (f b :: map f bs)) with (sum (map f (b :: bs))).
      rewrite F. cbn [map]. change (sum (h b :: map h bs)) with (h b + sum (map h bs)). change (sum (g b :: map g bs)) with (g b + sum (map g bs)).
      unfold h at 1. lia.
Qed.

(** A rule that can be declared: [truncate] keeps at least one event. *)
Fixpoint rule_ok (r : rule) : bool := match r with Truncate O _ => false | Blocks _ _ inner => rule_ok inner | _ => true end.

(** Every rule adds at most the weight to every histogram, for all rows. *)
Theorem compressed_adds_its_weight : forall r w l, rule_ok r = true -> 0 <= w ->
  forall c, In c (compressed r w l) -> within w c.
Proof.
  induction r as [|[|c0] order|cuts|most choice|most choice place bins part|place number r IH]; intros w l R W c H; try discriminate R;
    cbn [compressed In] in H; repeat destruct H as [<-|H]; try contradiction.
  - now apply normalised_adds_its_weight.
  - apply truncated_adds_its_weight; [lia|assumption].
  - now apply totalled_adds_its_weight.
  - now apply within_tail, normalised_adds_its_weight.
  - now apply normalised_adds_its_weight.
  - now apply within_tail, normalised_adds_its_weight.
  - apply in_map_iff in H as [d [<- D]]. apply blocks_within. now apply (IH w l).
Qed.

(** The parts of a price, for all histograms of one group, sum to the price. *)
Lemma divided_sums : forall r price, 0 <= price -> (forall p, In p (divided r price) -> 0 <= p) /\ sum (divided r price) = price.
Proof.
  induction r as [| | | | |place number r IH]; intros price P; cbn [divided]; try (now apply IH);
    (split; [intros p H; cbn [In] in H; repeat destruct H as [<-|H]; try contradiction; lia|cbn; lia]).
Qed.

(** [whole_pdf]: the histogram of the slot is itself a distribution, so that it moves by at most two units, whoever changes. *)
Definition whole (h : list Z) : list Z := map (fun x => proportional GRAINS x (sum h)) h.

Theorem whole_pdf_moves_two_units : forall h h', (forall x, In x h -> 0 <= x) -> (forall x, In x h' -> 0 <= x) ->
  (forall x, In x (whole h) -> 0 <= x) /\ sum (whole h) <= GRAINS /\
  sum (map (fun p => Z.abs (fst p - snd p)) (combine (whole h) (whole h'))) <= 2 * GRAINS.
Proof.
  assert (A : forall h, (forall x, In x h -> 0 <= x) -> (forall x, In x (whole h) -> 0 <= x) /\ sum (whole h) <= GRAINS).
  { intros h H. unfold whole. pose proof (sum_nonneg h H). pose proof GRAINS_pos. destruct (Z.eq_dec (sum h) 0) as [E|E].
    - rewrite E, (map_ext _ (fun _ => 0)) by (intros; unfold proportional; apply Zdiv_0_r). rewrite sum_zero.
      split; [|lia]. intros x I. apply in_map_iff in I as [y [<- _]]. lia.
    - apply compression; try assumption; lia. }
  intros h h' H H'. destruct (A h H) as [P S]. destruct (A h' H') as [P' S']. split; [assumption|]. split; [assumption|].
  assert (B : forall a b, (forall x, In x a -> 0 <= x) -> (forall x, In x b -> 0 <= x) ->
            sum (map (fun p => Z.abs (fst p - snd p)) (combine a b)) <= sum a + sum b).
  { induction a as [|x a IH]; intros b Pa Pb.
    - cbn. pose proof (sum_nonneg b Pb). lia.
    - destruct b as [|y b]; [pose proof (sum_nonneg (x :: a) Pa); cbn [combine map] in *; change (sum []) with 0; lia|].
      cbn [combine map fst snd]. change (sum (?x :: ?y)) with (x + sum y).
      specialize (IH b (fun z Z => Pa z (or_intror Z)) (fun z Z => Pb z (or_intror Z))).
      pose proof (Pa x (or_introl eq_refl)). pose proof (Pb y (or_introl eq_refl)). lia. }
  specialize (B _ _ P P'). lia.
Qed.
