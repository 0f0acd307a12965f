(** Definitions that are slightly wrong, each with a proved counterexample of the lemma or theorem that it breaks. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
Require Import Ledger Lost Invariant Payments Trace Compression Bounds Laplace Store.
Import ListNotations.
Open Scope Z_scope.

(** ** Arithmetic *)

(** 1. A debit that is rounded down: what is lost is more than what is charged ([debit_covers]). *)
Definition debit_down (e g : Z) : Z := e * g / GRAINS.
Theorem mutant_debit_down : exists e g, e * g > debit_down e g * GRAINS.
Proof. exists 1, 1. vm_compute. reflexivity. Qed.

(** 2. A weight that is rounded up: it costs more than the account may pay ([affordable_pays]). *)
Definition affordable_up (policy limit e : Z) : Z := Z.min policy ((limit * GRAINS + e - 1) / e).
Theorem mutant_weight_up : exists limit e, debit e (affordable_up GRAINS limit e) > limit.
Proof. exists 1, (3 * GRAINS). vm_compute. reflexivity. Qed.

(** 3. A debit by the price of the user's own class, where the noise of the group has the largest ([debit_covers]). *)
Theorem mutant_own_price : exists own price g, own < price /\ price * g > debit own g * GRAINS.
Proof. exists 1, 2, GRAINS. vm_compute. auto. Qed.

(** 4. A levy that is added: it refills accounts ([charge_lost_covers] takes from [available]). *)
Definition available_plus (epsilon levied : Z) : Z := Z.max 0 (epsilon + levied).
Theorem mutant_levy_refills : exists epsilon levied, 0 <= levied /\ available_plus epsilon levied > epsilon.
Proof. exists 1, 1. vm_compute. split; [discriminate|reflexivity]. Qed.

(** 5. What is left, without its sign: an account that a levy has emptied has something again ([left_nonneg], [pay_spec]). *)
Definition left_abs (held spent : Z) : Z := Z.abs (held - spent).
Theorem mutant_left_abs : exists held spent, held < spent /\ left_abs held spent > 0.
Proof. exists 1, 3. vm_compute. auto. Qed.

(** 6. Rows rounded up: a user of many bins moves the histogram by more than the weight ([compression]). *)
Definition proportional_up (w rb r : Z) : Z := (w * rb + r - 1) / r.
Theorem mutant_rows_up : exists w r rs, sum rs = r /\ sum (map (fun rb => proportional_up w rb r) rs) > w.
Proof. exists 1, 2, [1; 1]. vm_compute. auto. Qed.

(** ** Traces *)

Definition small : config :=
  {| epsilon := 2 ^ 20; top := 3; period := 0; policy := fun _ => GRAINS; by_class := Z.even |}.

Definition play (mutant : state -> action -> option (state * (Z * Z))) (first : state) (life : list action) : option state :=
  fold_left (fun st x => match st with None => None | Some s => option_map fst (mutant s x) end) life (Some first).

Definition breaks (mutant : state -> action -> option (state * (Z * Z))) (life : list action) : bool :=
  match play mutant (start 0) life with
  | None => false
  | Some st => epsilon small * GRAINS <? losses 0 (paid st)
  end.
Definition keeps (life : list action) : bool :=
  match play (step small) (start 0) life with
  | None => false
  | Some st => losses 0 (paid st) <=? epsilon small * GRAINS
  end.

Definition change_now (f : accounts -> accounts) (st : state) : state :=
  {| now := f (now st); seen := seen st; copies := copies st; paid := paid st |}.

(** Three payments of next to nothing, and then next to all that is left; every class in a group of its own. *)
Definition asked : list group := map (fun m => (2 ^ 20, [(m, if m =? 3 then 4095 else 1)])) [0; 1; 2; 3].
Definition slot (s t : Z) (here : bool) : action := PayClass s t asked false here.

(** 7. A restoration that charges nothing: what was lost is spent again. *)
Definition restore_free (st : state) (x : action) : option (state * (Z * Z)) :=
  match x, step small st x with
  | Restore n, Some (st', out) =>
      match nth_error (copies st) n with
      | Some (c, _) => Some (change_now (fun a => {| table := table c; own := own c; slots := slots a; levies := levies c;
                                                     assigned := assigned c |}) st', out)
      | None => None
      end
  | _, r => r
  end.
Definition all_at_once (s t : Z) : action := PayPolicy s t (2 ^ 20) 1 1 false true.
Definition lost_once : list action := [PayPolicy 1 0 0 1 1 false false; Copy; all_at_once 1 1; Restore 0; all_at_once 1 2].
Theorem mutant_restore_free : breaks restore_free lost_once = true /\ keeps lost_once = true.
Proof. vm_compute. auto. Qed.

(** 8. A restoration after which streams that lack no slot forget their marks: a later copy is charged by a class that
    the user has left. This was so in the code until this theorem was tried; u loses nearly 2 ε. *)
Definition restore_unmarked (st : state) (x : action) : option (state * (Z * Z)) :=
  match x, step small st x with
  | Restore n, Some (st', out) =>
      match nth_error (copies st) n with
      | Some (c, _) =>
          let p := seen st' in
          Some ({| now := now st'; copies := copies st'; paid := paid st';
                   seen := {| largest := largest p; billed := billed p;
                              restored := map (fun m => if last_of c (fst m) =? last_of (now st) (fst m) then (fst m, []) else m) (restored p) |} |},
                out)
      | None => None
      end
  | _, r => r
  end.
Definition branches : list action :=
  [slot 2 0 false; slot 0 0 false; Copy; slot 0 1 true; slot 0 2 true; slot 0 3 true; Copy;
   Restore 1; slot 2 1 false; slot 2 2 false; Copy; Restore 1; slot 0 4 true;
   Restore 0; slot 0 5 true; slot 0 6 true; slot 0 7 true; slot 0 8 true].
Theorem mutant_restore_unmarked : breaks restore_unmarked branches = true /\ keeps branches = true.
Proof. vm_compute. auto. Qed.

(** 9. An account that is deleted when it is empty: the user comes back with all of ε. *)
Definition delete_empty (st : state) (x : action) : option (state * (Z * Z)) :=
  match step small st x with
  | Some (st', out) =>
      Some (change_now (fun a => if left_at small a 0 =? 0 then {| table := zero; own := own a; slots := slots a; levies := levies a;
                                                                   assigned := assigned a |} else a) st', out)
  | None => None
  end.
Theorem mutant_delete_empty : breaks delete_empty [all_at_once 1 0; all_at_once 1 1] = true /\ keeps [all_at_once 1 0; all_at_once 1 1] = true.
Proof. vm_compute. auto. Qed.

(** 10. A copy that lost slots of two streams is charged for one of them. *)
Definition charge_one_stream (st : state) (x : action) : option (state * (Z * Z)) :=
  match x with
  | Restore _ => step small {| now := now st; copies := copies st; paid := paid st;
                               seen := {| largest := largest (seen st); restored := restored (seen st);
                                          billed := filter (fun b => fst b =? 1) (billed (seen st)) |} |} x
  | _ => step small st x
  end.
Definition two_streams : list action :=
  [PayPolicy 1 0 0 1 1 false false; PayPolicy 3 0 0 1 1 false false; Copy; PayPolicy 3 1 (2 ^ 20) 1 1 false true; Restore 0; all_at_once 1 1].
Theorem mutant_charge_one_stream : breaks charge_one_stream two_streams = true /\ keeps two_streams = true.
Proof. vm_compute. auto. Qed.

(** 11. A quota that is given of what a user has paid already: rest and sub-account take 2 ε ([quotas_keep_epsilon]). *)
Definition assign_any (st : state) (x : action) : option (state * (Z * Z)) :=
  match x with
  | Assign n _ => Some (change_now (fun a => {| table := table a; own := own a; slots := slots a; levies := levies a; assigned := n |}) st, (0, 0))
  | _ => step small st x
  end.
Definition lost_in (st : option state) : Z := match st with Some s => losses 0 (paid s) | None => 0 end.
Theorem mutant_assign_any :
  lost_in (play assign_any (start 0) [all_at_once 1 0; Assign (2 ^ 20) 0]) +
  lost_in (play assign_any (start (2 ^ 20)) [Assign 0 0; all_at_once 3 0]) > epsilon small * GRAINS.
Proof. vm_compute. reflexivity. Qed.

(** ** The mechanism *)

Open Scope R_scope.

(** 12. Noise that is never negative: an output of 0 tells that u was not there ([mass_ratio]). *)
Definition mass_above (rate : R) (z : Z) : R := if (z <? 0)%Z then 0 else (1 - ratio rate) * exp (- rate * IZR z).
Theorem mutant_one_sided : forall rate bound, 0 < rate -> mass_above rate 0 > bound * mass_above rate (-1).
Proof.
  intros rate bound R. unfold mass_above. cbn [Z.ltb Z.compare]. rewrite Rmult_0_r, Rmult_0_r, exp_0.
  pose proof (ratio_range rate R). lra.
Qed.

(** 13. Noise of half the scale: twice the loss ([mass_ratio]). *)
Theorem mutant_half_scale : forall rate, 0 < rate -> mass (2 * rate) 0 > exp (rate * IZR (Z.abs (0 - 1))) * mass (2 * rate) (0 - 1).
Proof.
  intros rate R. assert (R2 : 0 < 2 * rate) by lra. pose proof (ratio_range _ R2). unfold mass.
  change (Z.abs (0 - 1)) with 1%Z. change (Z.abs 0) with 0%Z. rewrite Rmult_0_r, exp_0, !Rmult_1_r.
  set (c := (1 - ratio (2 * rate)) / (1 + ratio (2 * rate))). assert (C : 0 < c) by (apply Rdiv_lt_0_compat; lra).
  replace (exp rate * (c * exp (- (2 * rate)))) with (c * exp (- rate))
    by (replace (- rate) with (rate + - (2 * rate)) by ring; rewrite exp_plus; ring).
  assert (exp (- rate) < 1) by (rewrite <- exp_0; apply exp_increasing; lra). nra.
Qed.

(** ** Compression and the whole store *)

Open Scope Z_scope.

(** 14. Events of [truncate] that are rounded up: c of them move the histogram by more than the weight
    ([truncated_adds_its_weight]). *)
Theorem mutant_events_up : exists (c : Z) w kept, sum kept = c /\ sum (map (fun k => k * ((w + c - 1) / c)) kept) > w.
Proof. exists 2, 1, [1; 1]. vm_compute. auto. Qed.

(** 15. Listed values and texts that cost the whole price each: twice the loss ([divided_sums]). *)
Theorem mutant_undivided : exists price, 0 < price /\ sum [price; price] > price.
Proof. exists 1. vm_compute. auto. Qed.

(** 16. A kept text more than the weight is spread over: the parts of a user sum to more ([normalised_adds_its_weight]). *)
Theorem mutant_spread_over_some : exists w l some, sum some < sum (counts l) /\
  sum (map (fun rb => proportional w rb (sum some)) (counts l)) > w.
Proof. exists 2, [1%nat; 1%nat], [1]. vm_compute. auto. Qed.

(** 17. Bounds after a restoration that forget the lost slots: a quota is given of what users have spent in them, and rest
    and quota together take nearly 2 ε ([stated_covers], [store_loses_what_verify_prints]). *)
Definition book_step_unlost (b : book) (x : action) : option (book * (Z * Z)) :=
  match x, book_step small b x with
  | Restore n, Some (b', out) =>
      Some ({| of := of b'; since := since b'; base := base b'; most := nth n (most_then b) []; most_then := most_then b'; past := past b'; past_then := past_then b';
               paid_in := paid_in b'; paid_then := paid_then b' |}, out)
  | _, r => r
  end.
Definition play_book (mutant : book -> action -> option (book * (Z * Z))) (life : list action) : option book :=
  fold_left (fun b x => match b with None => None | Some b' => option_map fst (mutant b' x) end) life (Some (opened 0)).
Definition all_of_it (t : Z) (here : bool) : action := PayClass 0 t [(2 ^ 20, [(0, 4096)])] false here.
Definition restored_rest : list action := [slot 0 0 false; Copy; all_of_it 1 true; Restore 0].
Definition after_growth (rest : option book) : Z :=       (* what rest and quota have lost in the end; -1: refused *)
  match rest with
  | None => -2
  | Some b =>
      match grow {| rules := small; its := b |} (new_account small (epsilon small)) (epsilon small - 256) with
      | None => -1
      | Some (r, q) =>
          match act_on q (PayPolicy 1 0 (epsilon small - 256) 1 1 false true) with
          | Some (q', _) => lost_by r + lost_by q'
          | None => -1
          end
      end
  end.
Theorem mutant_bounds_unlost :
  after_growth (play_book book_step_unlost restored_rest) > epsilon small * GRAINS /\
  after_growth (play_book (book_step small) restored_rest) = -1.
Proof. vm_compute. auto. Qed.

(** The theorem of the store is not empty: a stream by class, a copy that goes on, a quota that grows afterwards and pays,
    a separate ledger with a period and a series are all accepted; what u has lost is above zero, and below the sum. *)
Definition yearly : config := {| epsilon := 2 ^ 20; top := 0; period := 2; policy := fun _ => GRAINS; by_class := Z.even |}.
Definition lived : list deed :=
  [OpenLedger small; Pay 0 0 (slot 0 0 true); Pay 0 0 Copy; Pay 0 0 (slot 0 1 true); Pay 0 0 (Restore 0); Pay 0 0 (slot 0 2 true);
   OpenQuota 0 small; Grow 0 0 (2 ^ 19); Pay 0 1 (PayPolicy 1 0 (2 ^ 19) 1 1 false true);
   OpenLedger yearly; Pay 1 0 (all_of_it 0 true); Pay 1 0 Copy; Pay 1 0 (all_of_it 1 true); Pay 1 0 (all_of_it 2 true);
   Pay 1 0 (Restore 0); Pay 1 0 (all_of_it 4 true);
   OpenSeries (2 ^ 10); Draw 2 (2 ^ 9) true].
Definition after_all (life : list deed) : option store :=
  fold_left (fun s d => match s with None => None | Some s' => option_map fst (store_step s' d) end) life (Some []).
Theorem store_is_lived_in :
  match after_all lived with
  | Some s => (0 <? lost_in_store s) && (lost_in_store s <=? printed s * GRAINS) && (printed s <? promised s) = true
  | None => False
  end.
Proof. vm_compute. auto. Qed.
