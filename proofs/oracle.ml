(* Plays lives of many users through the extracted ledger: actions are read line by line, and of each user two whole
   numbers of 64 bits are written for every action: grains and debit, or -1 where it is refused. *)

let big = Big_int_Z.big_int_of_string
let out = Buffer.create (1 lsl 20)
let put number = Buffer.add_int64_le out number
let put_big number = put (Big_int_Z.int64_of_big_int number)

let read_config words =
  match words with
  | epsilon :: top :: period :: assigned :: users :: policy ->
      let table = Array.of_list (List.map big policy) in
      let grains active =
        table.(min (Big_int_Z.int_of_big_int active) (Array.length table - 1)) in
      ( { Ledger.epsilon = big epsilon; top = big top; period = big period; policy = grains;
          by_class = (fun stream -> Big_int_Z.int_of_big_int stream land 1 = 0) },
        Array.make (int_of_string users) (Ledger.start (big assigned)) )
  | _ -> failwith "no configuration"

let rec read_classes number words =
  if number = 0 then ([], words)
  else match words with
    | m :: steps :: rest ->
        let classes, rest = read_classes (number - 1) rest in
        ((big m, big steps) :: classes, rest)
    | _ -> failwith "no class"

let rec read_groups number words =
  if number = 0 then ([], words)
  else match words with
    | price :: size :: rest ->
        let classes, rest = read_classes (int_of_string size) rest in
        let groups, rest = read_groups (number - 1) rest in
        ((big price, classes) :: groups, rest)
    | _ -> failwith "no group"

(* The action of each user: they differ in who is there alone. *)
let read_action words =
  match words with
  | [ "P"; stream; slot; e; num; den; whole; bits ] ->
      fun user -> Ledger.PayPolicy (big stream, big slot, big e, big num, big den, whole = "1", bits.[user] = '1')
  | "C" :: stream :: slot :: whole :: number :: rest ->
      let groups, rest = read_groups (int_of_string number) rest in
      let bits = List.hd rest in
      fun user -> Ledger.PayClass (big stream, big slot, groups, whole = "1", bits.[user] = '1')
  | [ "L"; slot; units ] -> fun _ -> Ledger.Levy (big slot, big units)
  | [ "A"; units; bound ] -> fun _ -> Ledger.Assign (big units, big bound)
  | [ "K" ] -> fun _ -> Ledger.Copy
  | [ "R"; number ] -> fun _ -> Ledger.Restore (int_of_string number)
  | _ -> failwith "no action"

let () =
  set_binary_mode_out stdout true;
  let config, states = read_config (String.split_on_char ' ' (input_line stdin)) in
  try
    while true do
      let words = String.split_on_char ' ' (input_line stdin) in
      (match words with
       | [ "E"; stream; epoch ] ->
           Array.iter (fun (state : Ledger.state) ->
               put_big (Ledger.left_at config state.now (big epoch));
               put_big (Ledger.payments state.now (big stream) (big epoch))) states
       | _ ->
           let action = read_action words in
           Array.iteri (fun user state ->
               match Ledger.step config state (action user) with
               | None -> put (-1L); put (-1L)
               | Some (after, (grains, cost)) -> states.(user) <- after; put_big grains; put_big cost) states);
      if Buffer.length out > 1 lsl 20 then (Buffer.output_buffer stdout out; Buffer.clear out)
    done
  with End_of_file -> Buffer.output_buffer stdout out
