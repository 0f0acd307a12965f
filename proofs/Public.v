(** What is printed and what is refused is public: with u and without, a store goes through the same slots, bounds, levies
    and quotas, so that the sum that [dpi verify] prints tells nothing of u. *)

From Coq Require Import Reals ZArith List Bool Lia.
Require Import Ledger Lost Invariant Payments Trace Quota Compression Bounds Epochs Laplace Promise Store StorePromise.
Import ListNotations.
Open Scope Z_scope.

(** ** The public part: all but what u has *)

Definition public_accounts (a : accounts) : accounts :=
  {| table := zero; own := []; slots := slots a; levies := levies a; assigned := assigned a |}.
Definition public_copy (c : accounts * list (Z * Z)) : accounts * list (Z * Z) := (public_accounts (fst c), snd c).
Definition public_state (st : state) : state :=
  {| now := public_accounts (now st); seen := seen st; copies := map public_copy (copies st); paid := [] |}.
Definition public_book (b : book) : book :=
  {| of := public_state (of b); since := since b; base := base b; most := most b; most_then := most_then b;
     past := past b; past_then := past_then b; paid_in := []; paid_then := [] |}.
Definition public_account (a : account) : account := {| rules := rules a; its := public_book (its a) |}.
Definition public_pool (p : pool) : pool :=
  match p with Shared l => Shared (map public_account l) | Series total drawn _ => Series total drawn 0 end.
Definition public_store (s : store) : store := map public_pool s.

(** Two results are the same in public: both are refused, or their public parts are one. *)
Definition same {A B : Type} (part : A -> A) (x y : option (A * B)) : Prop :=
  match x, y with Some (a, _), Some (b, _) => part a = part b | None, None => True | _, _ => False end.

Lemma nth_map_public : forall (l : list (accounts * list (Z * Z))) n a,
  fst (nth n (map public_copy l) (public_accounts a, [])) = public_accounts (fst (nth n l (a, []))).
Proof.
  intros l n a. change (public_accounts a, []) with (public_copy (a, [])). rewrite map_nth. reflexivity.
Qed.

Lemma charge_lost_public : forall c st k bt,
  public_accounts (charge_lost c st (k, bt)) = public_accounts (charge_lost c (public_state st) (public_copy (k, bt))).
Proof.
  intros c st k bt. unfold charge_lost, public_copy. cbn [fst snd].
  change (streams (now (public_state st))) with (streams (now st)). change (slots (now (public_state st))) with (slots (now st)).
  destruct (existsb (by_class c) (streams (now st))); reflexivity.
Qed.

Lemma settle_none_present : forall c st s t price seen', exists st' out,
  settle c st s t price 0 seen' = Some (st', out) /\ slots (now st') = set s t (slots (now st)) /\ levies (now st') = levies (now st) /\
  assigned (now st') = assigned (now st) /\ seen st' = seen' /\ copies st' = copies st.
Proof.
  intros c st s t price seen'. unfold settle, pay.
  assert (D : debit price 0 = 0) by (unfold debit; rewrite Z.mul_0_r; apply Z.div_small; pose proof GRAINS_pos; lia).
  rewrite D. cbn [Z.leb Z.compare]. eexists. eexists. split; [reflexivity|]. cbn. auto.
Qed.

Lemma settle_public : forall c st s t price grains seen' st' out, settle c st s t price grains seen' = Some (st', out) ->
  slots (now st') = set s t (slots (now st)) /\ levies (now st') = levies (now st) /\
  assigned (now st') = assigned (now st) /\ seen st' = seen' /\ copies st' = copies st.
Proof.
  intros c st s t price grains seen' st' out E. unfold settle, pay in E. destruct (_ <=? 0) in E.
  - injection E as <- _. cbn. auto.
  - destruct (_ <? _) in E; [discriminate|]. injection E as <- _. cbn. auto.
Qed.

Lemma public_state_eq : forall st st', slots (now st) = slots (now st') -> levies (now st) = levies (now st') ->
  assigned (now st) = assigned (now st') -> seen st = seen st' -> map public_copy (copies st) = map public_copy (copies st') ->
  public_state st = public_state st'.
Proof. intros st st' A B C D E. unfold public_state, public_accounts. now rewrite A, B, C, D, E. Qed.

Lemma public_book_eq : forall b b', public_state (of b) = public_state (of b') -> since b = since b' -> base b = base b' ->
  most b = most b' -> most_then b = most_then b' -> past b = past b' -> past_then b = past_then b' -> public_book b = public_book b'.
Proof. intros b b' A B C D E F G. unfold public_book. now rewrite A, B, C, D, E, F, G. Qed.

Lemma public_twice : forall l, map public_copy (map public_copy l) = map public_copy l.
Proof. intros l. rewrite map_map. apply map_ext. intros [a b]. reflexivity. Qed.

Section Public.
Variable c : config.
Hypothesis epsilon_range : 0 <= epsilon c <= LARGEST.
Hypothesis top_range : 0 <= top c.
Hypothesis period_range : 0 <= period c.

(** A book does the same in public as one of a user who is never there. *)
Lemma book_step_public : forall b x, book_trace c b ->
  same public_book (book_step c b x) (book_step c (public_book b) (if_here false x)).
Proof.
  intros b x T. destruct (bounds_hold c epsilon_range top_range period_range b T) as [Tr _].
  destruct (no_bill_is_refused c epsilon_range top_range period_range _ Tr) as [Nc Np].
  destruct x as [s t e num den whole here|s t groups whole here|t units|units bound| |n]; unfold book_step; cbn [if_here].
  - cbn [allowed negb]. cbn [step]. change (in_turn c (now (of (public_book b))) s t) with (in_turn c (now (of b)) s t).
    specialize (Np s t e num den whole here). cbn [step] in Np.
    destruct (in_turn c (now (of b)) s t && negb (by_class c s) && (0 <=? e) && (0 <? num) && (num <=? den) && (den <=? SHARE_STEPS)); [|exact I].
    specialize (Np eq_refl).
    match goal with |- same _ (match ?x with _ => _ end) _ => destruct x as [[st1 [g1 d1]]|] eqn:E1; [|congruence] end.
    destruct (settle_none_present c (of (public_book b)) s t e
      {| largest := largest (seen (of (public_book b))); restored := restored (seen (of (public_book b)));
         billed := set s (get 0 s (billed (seen (of (public_book b)))) + e) (billed (seen (of (public_book b)))) |})
      as (st2 & [g2 d2] & E2 & A2 & B2 & C2 & D2 & F2).
    cbn zeta. rewrite E2. cbn [same].
    destruct (settle_public _ _ _ _ _ _ _ _ _ E1) as (A1 & B1 & C1 & D1 & F1).
    apply public_book_eq; try reflexivity. cbn [of]. apply public_state_eq; rewrite ?A1, ?A2, ?B1, ?B2, ?C1, ?C2, ?D1, ?D2, ?F1, ?F2; try reflexivity.
    cbn. now rewrite public_twice.
  - cbn [allowed negb]. cbn [step]. change (in_turn c (now (of (public_book b))) s t) with (in_turn c (now (of b)) s t).
    specialize (Nc s t groups whole here). cbn [step] in Nc.
    destruct (in_turn c (now (of b)) s t && by_class c s && well_asked c groups); [|exact I].
    specialize (Nc eq_refl). destruct (weights_by_class c (now (of b)) s (epoch_of c t) groups) as [p1 gr1].
    destruct (weights_by_class c (now (of (public_book b))) s (epoch_of c t) groups) as [p2 gr2]. cbn zeta in *.
    match goal with |- same _ (match ?x with _ => _ end) _ => destruct x as [[st1 [g1 d1]]|] eqn:E1; [|congruence] end.
    destruct (settle_none_present c (of (public_book b)) s t p2
      {| largest := set s (asks groups (get [] s (largest (seen (of (public_book b)))))) (largest (seen (of (public_book b))));
         restored := restored (seen (of (public_book b))); billed := billed (seen (of (public_book b))) |})
      as (st2 & [g2 d2] & E2 & A2 & B2 & C2 & D2 & F2).
    rewrite E2. cbn [same].
    destruct (settle_public _ _ _ _ _ _ _ _ _ E1) as (A1 & B1 & C1 & D1 & F1).
    apply public_book_eq; try reflexivity. cbn [of]. apply public_state_eq; rewrite ?A1, ?A2, ?B1, ?B2, ?C1, ?C2, ?D1, ?D2, ?F1, ?F2; try reflexivity.
    cbn. now rewrite public_twice.
  - exact I.
  - change (allowed c (public_book b) (Assign units bound)) with (allowed c b (Assign units bound)).
    destruct (negb (allowed c b (Assign units bound))); [exact I|]. cbn [step].
    change (held c (now (of (public_book b)))) with (held c (now (of b))).
    change (assigned (now (of (public_book b)))) with (assigned (now (of b))).
    destruct ((0 <=? units) && (units <=? epsilon c) && (period c =? 0) && (units - assigned (now (of b)) <=? assignable (held c (now (of b))) bound));
      [|exact I]. reflexivity.
  - cbn [allowed negb step same]. unfold public_book, public_state. cbn [of now seen copies paid since base most most_then map].
    rewrite public_twice. reflexivity.
  - cbn [allowed negb step]. change (copies (of (public_book b))) with (map public_copy (copies (of b))). rewrite nth_error_map.
    destruct (nth_error (copies (of b)) n) as [[k bt]|] eqn:N; [|exact I]. cbn [option_map].
    change (streams (now (of (public_book b)))) with (streams (now (of b))). change (slots (now (of (public_book b)))) with (slots (now (of b))).
    change (forallb (fun s => has s (slots (fst (public_copy (k, bt))))) (streams (now (of b)))) with
      (forallb (fun s => has s (slots (fst (k, bt)))) (streams (now (of b)))).
    destruct (forallb (fun s => has s (slots (fst (k, bt)))) (streams (now (of b))) && negb match slots (now (of b)) with [] => true | _ => false end);
      [|exact I]. cbn [same].
    pose proof (charge_lost_public c (of b) k bt) as Ch.
    apply public_book_eq; try reflexivity; cbn [of most past].
    + unfold public_state. cbn [now seen copies]. rewrite Ch. change (copies (of (public_book b))) with (map public_copy (copies (of b))).
      rewrite public_twice. reflexivity.
    + change (now (of (public_book b))) with (public_accounts (now (of b))). rewrite nth_map_public. reflexivity.
    + change (now (of (public_book b))) with (public_accounts (now (of b))). rewrite nth_map_public. reflexivity.
Qed.

End Public.

(** ** The store *)

Lemma public_account_twice : forall a, public_account (public_account a) = public_account a.
Proof. intros [r b]. unfold public_account, public_book, public_state. cbn. now rewrite public_twice. Qed.

Lemma public_accounts_twice : forall l, map public_account (map public_account l) = map public_account l.
Proof. intros l. rewrite map_map. apply map_ext, public_account_twice. Qed.

Lemma public_store_twice : forall s, public_store (public_store s) = public_store s.
Proof.
  intros s. unfold public_store. rewrite map_map. apply map_ext. intros [l|total drawn lost]; cbn; [now rewrite public_accounts_twice|reflexivity].
Qed.

Lemma map_change : forall (A B : Type) (f : A -> B) l n x, map f (change n x l) = change n (f x) (map f l).
Proof. intros A B f. induction l as [|y l IH]; intros [|n] x; cbn; auto. now rewrite IH. Qed.

Lemma change_same : forall (A B : Type) (f : A -> B) l l' n x y, map f l = map f l' -> f x = f y ->
  map f (change n x l) = map f (change n y l').
Proof. intros. rewrite !map_change. congruence. Qed.

Lemma act_on_public : forall a x, config_ok (rules a) = true -> book_trace (rules a) (its a) ->
  same public_account (act_on a x) (act_on (public_account a) (if_here false x)).
Proof.
  intros [r b] x C T. cbn [rules its] in *. destruct (config_range r C) as (C1 & C2 & C3). unfold act_on, public_account at 2 3.
  cbn [rules its]. pose proof (book_step_public r C1 C2 C3 b x T) as S.
  destruct (book_step r b x) as [[b1 o1]|], (book_step r (public_book b) (if_here false x)) as [[b2 o2]|]; cbn in S |- *; try contradiction; auto.
  unfold public_account. cbn. now rewrite S.
Qed.

Lemma grow_public : forall rest quota units, config_ok (rules rest) = true -> book_trace (rules rest) (its rest) ->
  config_ok (rules quota) = true -> book_trace (rules quota) (its quota) ->
  match grow rest quota units, grow (public_account rest) (public_account quota) units with
  | Some (r, q), Some (r', q') => public_account r = public_account r' /\ public_account q = public_account q'
  | None, None => True
  | _, _ => False
  end.
Proof.
  intros rest quota units C T C' T'. unfold grow. destruct (units <? 0); [exact I|].
  pose proof (act_on_public rest (Assign (assigned (now (of (its rest))) + units) (stated_by_all (rules rest) (its rest))) C T) as A.
  pose proof (act_on_public quota (Assign (assigned (now (of (its quota))) - units) 0) C' T') as B. cbn [if_here] in A, B.
  change (act_on (public_account rest) (Assign (assigned (now (of (its (public_account rest)))) + units)
            (stated_by_all (rules (public_account rest)) (its (public_account rest)))))
    with (act_on (public_account rest) (Assign (assigned (now (of (its rest))) + units) (stated_by_all (rules rest) (its rest)))).
  change (act_on (public_account quota) (Assign (assigned (now (of (its (public_account quota)))) - units) 0))
    with (act_on (public_account quota) (Assign (assigned (now (of (its quota))) - units) 0)).
  destruct (act_on rest _) as [[r o]|], (act_on (public_account rest) _) as [[r' o']|]; cbn [same] in A; try contradiction; auto.
  destruct (act_on quota _) as [[q p]|], (act_on (public_account quota) _) as [[q' p']|]; cbn [same] in B; try contradiction; auto.
Qed.

Lemma store_step_public : forall s d, history s ->
  same public_store (store_step s d) (store_step (public_store s) (if_present false d)).
Proof.
  intros s d H. pose proof (history_ok s H) as Ok. clear H.
  assert (Accounts : forall n l, nth_error s n = Some (Shared l) ->
            forall a, In a l -> config_ok (rules a) = true /\ book_trace (rules a) (its a)).
  { intros n l N a A. destruct (Ok _ (nth_error_In _ _ N)) as (e & k & _ & L & _). destruct (L a A) as (X & Y & _). auto. }
  pose proof (public_store_twice s) as Tw.
  destruct d as [c|total|n c|n q units|n q x|n e here]; cbn [if_present store_step].
  - destruct (config_ok c); [|exact I]. cbn [same]. unfold public_store at 1 2. rewrite !map_app. f_equal. symmetry. exact Tw.
  - destruct (0 <=? total); [|exact I]. cbn [same]. unfold public_store at 1 2. rewrite !map_app. f_equal. symmetry. exact Tw.
  - change (nth_error (public_store s) n) with (nth_error (map public_pool s) n). rewrite nth_error_map. destruct (nth_error s n) as [[[|rest quotas]|]|] eqn:N; cbn [option_map public_pool map]; try exact I.
    change (rules (public_account rest)) with (rules rest). destruct (_ && _); [|exact I]. cbn [same].
    apply change_same; [symmetry; exact Tw|]. cbn [public_pool map]. rewrite public_account_twice, !map_app, public_accounts_twice. reflexivity.
  - change (nth_error (public_store s) n) with (nth_error (map public_pool s) n). rewrite nth_error_map. destruct (nth_error s n) as [[[|rest quotas]|]|] eqn:N; cbn [option_map public_pool map]; try exact I.
    rewrite nth_error_map. destruct (nth_error quotas q) as [quota|] eqn:Nq; cbn [option_map]; [|exact I].
    pose proof (Accounts n _ N) as Ac. destruct (Ac rest (or_introl eq_refl)) as [C T].
    destruct (Ac quota (or_intror (nth_error_In _ _ Nq))) as [C' T']. pose proof (grow_public rest quota units C T C' T') as G.
    destruct (grow rest quota units) as [[r a]|], (grow (public_account rest) (public_account quota) units) as [[r' a']|]; try contradiction; auto.
    destruct G as [G1 G2]. cbn [same]. apply change_same; [symmetry; exact Tw|]. cbn [public_pool map]. rewrite G1. do 2 f_equal.
    apply change_same; [symmetry; apply public_accounts_twice|exact G2].
  - change (nth_error (public_store s) n) with (nth_error (map public_pool s) n). rewrite nth_error_map. destruct (nth_error s n) as [[l|]|] eqn:N; cbn [option_map public_pool]; try exact I.
    rewrite nth_error_map. destruct (nth_error l q) as [a|] eqn:Nq; cbn [option_map]; [|exact I].
    replace (assigns (if_here false x)) with (assigns x) by (destruct x; reflexivity). destruct (assigns x); [exact I|].
    destruct (Accounts n _ N a (nth_error_In _ _ Nq)) as [C T]. pose proof (act_on_public a x C T) as A.
    destruct (act_on a x) as [[a1 [w1 d1]]|], (act_on (public_account a) (if_here false x)) as [[a2 [w2 d2]]|]; cbn [same] in A |- *; try contradiction; auto.
    apply change_same; [symmetry; exact Tw|]. cbn [public_pool]. f_equal. apply change_same; [symmetry; apply public_accounts_twice|exact A].
  - change (nth_error (public_store s) n) with (nth_error (map public_pool s) n). rewrite nth_error_map. destruct (nth_error s n) as [[|total drawn lost]|] eqn:N; cbn [option_map public_pool]; try exact I.
    destruct ((0 <=? e) && (drawn + e <=? total)); [|exact I]. cbn [same]. apply change_same; [symmetry; exact Tw|]. reflexivity.
Qed.

Lemma printed_is_of_the_public_part : forall s, printed (public_store s) = printed s /\ promised (public_store s) = promised s.
Proof.
  intros s. unfold printed, promised, public_store. rewrite !map_map. split; f_equal; apply map_ext; intros [l|total drawn lost]; try reflexivity;
    cbn [public_pool printed_of_pool promised_of_pool]; rewrite map_map;
    replace (period_of (map public_account l)) with (period_of l) by (destruct l; reflexivity);
    replace (epsilon_of (map public_account l)) with (epsilon_of l) by (destruct l; reflexivity); reflexivity.
Qed.

(** Whatever u and the others do: where the same is done with the store, the same is refused, and the same is printed. *)
Theorem what_is_printed_is_public : forall f g, (forall past, deed_after f past = deed_after g past) ->
  forall t, printed (store_after f t) = printed (store_after g t) /\ promised (store_after f t) = promised (store_after g t).
Proof.
  intros f g D t.
  assert (P : forall t, public_store (store_after f t) = public_store (store_after g t)).
  { induction t0 as [|o past IH]; [reflexivity|]. cbn [store_after]. unfold moved. rewrite <- D.
    assert (Twice : forall h d, if_present false (if_present h d) = if_present false d).
    { intros h [| | | |p q x|]; try reflexivity. destruct x; reflexivity. }
    pose proof (store_step_public (store_after f past) (if_present (u_is_there f past) (deed_after f past)) (store_history f past)) as A.
    pose proof (store_step_public (store_after g past) (if_present (u_is_there g past) (deed_after f past)) (store_history g past)) as B.
    rewrite Twice in A, B. rewrite IH in A.
    destruct (store_step (store_after f past) _) as [[s1 [g1 w1]]|], (store_step (store_after g past) _) as [[s2 [g2 w2]]|],
      (store_step (public_store (store_after g past)) _) as [[s3 [g3 w3]]|]; cbn [same fst] in *; try contradiction; congruence. }
  rewrite <- (proj1 (printed_is_of_the_public_part (store_after f t))), <- (proj1 (printed_is_of_the_public_part (store_after g t))),
    <- (proj2 (printed_is_of_the_public_part (store_after f t))), <- (proj2 (printed_is_of_the_public_part (store_after g t))), P. auto.
Qed.

(** A deed is refused or accepted without a look at u. *)
Theorem what_is_refused_is_public : forall s s' d here here', history s -> history s' -> public_store s = public_store s' ->
  (store_step s (if_present here d) = None <-> store_step s' (if_present here' d) = None).
Proof.
  intros s s' d h h' H H' E.
  assert (Twice : forall h d, if_present false (if_present h d) = if_present false d).
  { intros y [| | | |p q x|]; try reflexivity. destruct x; reflexivity. }
  pose proof (store_step_public s (if_present h d) H) as A. pose proof (store_step_public s' (if_present h' d) H') as B.
  rewrite Twice in A, B. rewrite E in A.
  destruct (store_step s (if_present h d)) as [[s1 o1]|], (store_step s' (if_present h' d)) as [[s2 o2]|],
    (store_step (public_store s') (if_present false d)) as [[s3 o3]|]; cbn [same] in *; try contradiction; split; congruence.
Qed.
