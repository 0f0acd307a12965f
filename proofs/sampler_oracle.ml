(* Plays the extracted sampler on given words. A line is a question: what is asked, its numbers, the words. The answer is the
   result and how many words were drawn, or "undecided" where the words do not suffice. *)

let big = Big_int_Z.big_int_of_string
let rec split number list =
  if number = 0 then ([], list)
  else match list with x :: rest -> let head, tail = split (number - 1) rest in (x :: head, tail) | [] -> failwith "too few"

let answer show words program =
  match Sampler.run program words with
  | None -> "undecided"
  | Some (result, left) -> Printf.sprintf "%d %s" (List.length words - List.length left) (show result)

let number = Big_int_Z.string_of_big_int
let fuel = 1000

let () =
  try
    while true do
      let kind, rest = match String.split_on_char ' ' (input_line stdin) with
        | kind :: rest -> (kind, List.map big rest) | [] -> failwith "no question" in
      print_endline (match kind, rest with
        | "noise", guard :: base :: digits :: coins :: num :: den :: count :: rest ->
            let values, words = split (Big_int_Z.int_of_big_int count) rest in
            answer (fun zs -> String.concat " " (List.map number zs)) words
              (Sampler.exact_sampler guard base digits coins num den fuel values)
        | "log", guard :: base :: num :: den :: a :: n :: words ->
            answer number words (Sampler.refine base (Sampler.exact_log guard num den (big "1")) fuel a n)
        | "below", guard :: base :: num :: den :: digits :: r :: a :: n :: words ->
            answer string_of_bool words (Sampler.refine base (Sampler.decide_below guard num den digits r) fuel a n)
        | _ -> failwith "no question")
    done
  with End_of_file -> ()
