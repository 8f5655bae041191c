(** * Certificates of hardmax attention: Theorem 1, Theorem 4 and C1

    The model.  There are [n] tokens.  Token [i] has a position [Z i], a row
    vector of dimension [d].  A mask says which tokens a token sees.  At every
    layer token [i] attends to its argmax set

      C_i(Z) = { j seen by i : <A z_i, z_p> <= <A z_i, z_j> for all p seen by i }

    and moves towards the mean of that set, the centroid c_i, with step
    b = alpha / (1 + alpha):

      z_i <- (1 - b) z_i + b c_i.

    The matrix [A] is arbitrary: neither symmetric nor definite.  The steps lie
    in [0, 1) and may differ from layer to layer.  The numbers form an ordered
    field [R]: the rationals, in which the program computes certificates, and
    the real numbers are examples.  Equal tokens are separate tokens here;
    the multiplicities of the program are the same means written shorter. *)

From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** ** The model *)

Section Hardmax.

Variables (R : realFieldType) (n d : nat).
Variable A : 'M[R]_d.
Variable sees : rel 'I_n.

(** The positions of all tokens at one layer. *)
Definition tokens := 'I_n -> 'rV[R]_d.

Implicit Types (Z : tokens) (i j l p q r : 'I_n) (S : {set 'I_n}).
Implicit Types (x y : 'rV[R]_d) (b M : R).

(** <A x, y> *)
Definition score x y : R := (x *m A^T *m y^T) 0 0.

(** argmax_{j seen by i} <A x, z_j>: what token [i] would attend to if it were
    placed at [x] and the keys stayed where they are. *)
Definition argmax Z i x : {set 'I_n} :=
  [set j | sees i j & [forall p, sees i p ==> (score x (Z p) <= score x (Z j))]].

(** C_i(Z) *)
Definition attended Z i : {set 'I_n} := argmax Z i (Z i).

(** The mean of the positions of the tokens in [S]. *)
Definition mean Z S : 'rV[R]_d := #|S|%:R^-1 *: \sum_(j in S) Z j.

(** c_i, the mean of C_i *)
Definition centroid Z i : 'rV[R]_d := mean Z (attended Z i).

(** One layer with step [b]. *)
Definition layer b Z : tokens :=
  fun i => (1 - b) *: Z i + b *: centroid Z i.

(** Z^k: the positions after [k] layers with steps [b 0], ..., [b (k - 1)]. *)
Fixpoint run (b : nat -> R) Z k : tokens :=
  if k is k'.+1 then layer (b k') (run b Z k') else Z.

(** Token [i] leads if every member of C_i has the position of [i].  For
    distinct tokens this is C_i = {i}. *)
Definition leads Z i : bool := [forall j in attended Z i, Z j == Z i].

(** The hypotheses of Theorem 4 and C1: all members of C_i lead, and a token
    placed at the centroid c_i would still have all of C_i among its maximisers. *)
Definition decided Z i : bool :=
  [forall j in attended Z i, leads Z j] &&
  (attended Z i \subset argmax Z i (centroid Z i)).

(** The factor by which layers [k], ..., [m - 1] shrink a distance. *)
Definition contraction (b : nat -> R) k m : R := \prod_(k <= s < m) (1 - b s).

(** ** Inner products, means and argmax sets *)

(** <A x, y> is linear in [x] and in [y]. *)
Lemma score_left a1 a2 x1 x2 y :
  score (a1 *: x1 + a2 *: x2) y = a1 * score x1 y + a2 * score x2 y.
Proof. by rewrite /score !mulmxDl -!scalemxAl !mxE. Qed.

Lemma score_right a1 a2 x y1 y2 :
  score x (a1 *: y1 + a2 *: y2) = a1 * score x y1 + a2 * score x y2.
Proof. by rewrite /score linearD !linearZ mulmxDr -!scalemxAr !mxE. Qed.

Lemma score_mean x Z S :
  score x (mean Z S) = #|S|%:R^-1 * \sum_(j in S) score x (Z j).
Proof.
by rewrite /score /mean linearZ -scalemxAr mxE linear_sum mulmx_sumr summxE.
Qed.

Lemma card_inv_mul S : S != set0 -> #|S|%:R^-1 * #|S|%:R = 1 :> R.
Proof. by move=> nonempty; rewrite mulVf // pnatr_eq0 cards_eq0. Qed.

(** The mean of points that are all equal to [x] is [x]. *)
Lemma mean_equal Z S x : S != set0 -> {in S, forall j, Z j = x} -> mean Z S = x.
Proof.
move=> nonempty equal; rewrite /mean (eq_bigr (fun=> x)) //.
by rewrite sumr_const -scaler_nat scalerA card_inv_mul // scale1r.
Qed.

(** A mean depends only on the positions of its members. *)
Lemma eq_mean Z Z' S : {in S, Z =1 Z'} -> mean Z S = mean Z' S.
Proof. by move=> equal; congr (_ *: _); apply: eq_bigr. Qed.

(** A half-space that contains all points of [S] contains their mean. *)
Lemma score_mean_le x Z S M :
  S != set0 -> {in S, forall j, score x (Z j) <= M} -> score x (mean Z S) <= M.
Proof.
move=> nonempty below; rewrite score_mean ler_pdivr_mull; last first.
  by rewrite ltr0n card_gt0.
by rewrite mulr_natl -sumr_const ler_sum.
Qed.

(** Membership in the argmax set, in words. *)
Lemma argmaxP Z i x j :
  reflect (sees i j /\ forall p, sees i p -> score x (Z p) <= score x (Z j))
          (j \in argmax Z i x).
Proof.
rewrite inE; apply: (iffP andP) => -[seen /= best]; split=> //.
  by move=> p; apply/implyP/(forallP best).
by apply/forallP => p; apply/implyP/best.
Qed.

(** Two members have the same inner product. *)
Lemma argmax_equal Z i x j q :
  j \in argmax Z i x -> q \in argmax Z i x -> score x (Z j) = score x (Z q).
Proof.
by move=> /argmaxP[ij bestj] /argmaxP[iq bestq]; apply/eqP; rewrite eq_le bestj ?bestq.
Qed.

(** Every seen token outside the argmax set is strictly below. *)
Lemma argmax_strict Z i x j p :
  j \in argmax Z i x -> sees i p -> p \notin argmax Z i x -> score x (Z p) < score x (Z j).
Proof.
move=> /argmaxP[ij best] ip; apply: contraR; rewrite -leNgt => ge.
by apply/argmaxP; split=> // r /best /le_trans; apply.
Qed.

(** A set is the argmax set if its members are level and all others strictly
    below.  These are the inequalities that a certificate checker tests. *)
Lemma argmax_unique Z i x S :
    S != set0 -> {in S, forall q, sees i q} ->
    {in S &, forall q r, score x (Z q) = score x (Z r)} ->
    {in S, forall q p, sees i p -> p \notin S -> score x (Z p) < score x (Z q)} ->
  argmax Z i x = S.
Proof.
move=> /set0Pn[q qS] seen level below; apply/setP => j; apply/argmaxP/idP.
  by case=> ij best; apply: contraLR (best q (seen q qS)); rewrite -ltNge; apply: below.
move=> jS; split=> [|p ip]; first exact: seen.
by case: (boolP (p \in S)) => [pS | /(below j jS p ip)/ltW //]; rewrite (level p j).
Qed.

Lemma leadsP Z i :
  reflect {in attended Z i, forall j, Z j = Z i} (leads Z i).
Proof. exact: eqfun_inP. Qed.

Hypothesis sees_refl : reflexive sees.

(** The argmax set is never empty, because a token sees itself. *)
Lemma argmax_nonempty Z i x : argmax Z i x != set0.
Proof.
have [/= j ij best] := arg_maxP (fun j => score x (Z j)) (sees_refl i).
by apply/set0Pn; exists j; apply/argmaxP; split=> // p /best.
Qed.

(** A leader is its own centroid and does not move. *)
Lemma leader_centroid Z i : leads Z i -> centroid Z i = Z i.
Proof. by move=> /leadsP; apply/mean_equal/argmax_nonempty. Qed.

Lemma leader_layer b Z i : leads Z i -> layer b Z i = Z i.
Proof. by move=> lead; rewrite /layer leader_centroid // -scalerDl subrK scale1r. Qed.

(** ** One layer *)

Hypothesis sees_trans : transitive sees.

Lemma score_layer x b Z p :
  score x (layer b Z p) = (1 - b) * score x (Z p) + b * score x (centroid Z p).
Proof. exact: score_right. Qed.

Lemma score_query_layer b Z i y :
  score (layer b Z i) y = (1 - b) * score (Z i) y + b * score (centroid Z i) y.
Proof. exact: score_left. Qed.

Lemma split_weights b M : M = (1 - b) * M + b * M.
Proof. by rewrite -mulrDl subrK mul1r. Qed.

(** The tokens that [p] attends to are seen by everyone who sees [p]; so a
    half-space that contains all tokens seen by [i] contains their centroids. *)
Lemma score_centroid_le x M Z i p :
    (forall r, sees i r -> score x (Z r) <= M) -> sees i p ->
  score x (centroid Z p) <= M.
Proof.
move=> below ip; apply: score_mean_le; first exact: argmax_nonempty.
by move=> r /argmaxP[pr _]; apply/below/(sees_trans ip).
Qed.

(** The half-space also contains their next positions, which are convex
    combinations of what [i] sees now. *)
Lemma score_layer_le x M b Z i p :
    0 <= b < 1 -> (forall r, sees i r -> score x (Z r) <= M) -> sees i p ->
  score x (layer b Z p) <= M.
Proof.
move=> /andP[b0 b1] below ip; rewrite score_layer [leRHS](split_weights b).
apply: ler_add; apply: ler_wpmul2l; rewrite ?subr_ge0 ?(ltW b1) ?below //.
exact: score_centroid_le below ip.
Qed.

(** A token strictly inside the half-space stays strictly inside, because it
    keeps the positive weight 1 - b on its own position. *)
Lemma score_layer_lt x M b Z i p :
    0 <= b < 1 -> (forall r, sees i r -> score x (Z r) <= M) -> sees i p ->
  score x (Z p) < M -> score x (layer b Z p) < M.
Proof.
move=> /andP[b0 b1] below ip ltM; rewrite score_layer [ltRHS](split_weights b).
apply: ltr_le_add; first by rewrite ltr_pmul2l ?subr_gt0.
exact/ler_wpmul2l/(score_centroid_le below ip).
Qed.

(** A member of a leader's argmax set leads as well: it sits at the leader's
    position, and it sees no token that the leader does not see. *)
Lemma leader_member Z i p : leads Z i -> p \in attended Z i -> leads Z p.
Proof.
move=> lead pC; have /leadsP equal := lead; apply/leadsP => j /argmaxP[pj best].
have [ip above] := argmaxP _ _ _ _ pC; rewrite (equal p pC); apply: (equal j).
apply/argmaxP; split=> [|r ir]; first exact: sees_trans pj.
by apply: le_trans (above r ir) _; rewrite -(equal p pC) best.
Qed.

(** ** One layer of C1

    If all members of C_i lead, and all of C_i is in argmax <A c_i, .>, then
    C_i is the same set after one layer.  With q in C_i and p seen by [i], the
    gap <A x, z_q - z_p> is affine in [x].  At x = z_i it is 0 for p in C_i and
    positive for the others; at x = c_i it is nonnegative. *)
Lemma attended_layer b Z i :
  0 <= b < 1 -> decided Z i -> attended (layer b Z) i = attended Z i.
Proof.
move=> b01 /andP[/forall_inP lead /subsetP sub].
have /andP[b0 b1] := b01.
have still q : q \in attended Z i -> layer b Z q = Z q by move/lead/leader_layer.
apply: argmax_unique; first exact: argmax_nonempty.
- by move=> q /argmaxP[].
- move=> q r qC rC; rewrite [layer b Z q]still // [layer b Z r]still //.
  by rewrite !score_query_layer (argmax_equal qC rC) (argmax_equal (sub q qC) (sub r rC)).
move=> q qC p ip pC; rewrite [layer b Z q]still // !score_query_layer.
have [[_ best] [_ best_c]] := (argmaxP _ _ _ _ qC, argmaxP _ _ _ _ (sub q qC)).
apply: ltr_le_add; last by apply/ler_wpmul2l/(score_layer_le b01 best_c).
rewrite ltr_pmul2l ?subr_gt0 //.
exact: score_layer_lt b01 best ip (argmax_strict qC ip pC).
Qed.

(** A leader satisfies the hypotheses of C1, with its own position as centroid. *)
Lemma leader_decided Z i : leads Z i -> decided Z i.
Proof.
move=> lead; rewrite /decided leader_centroid // subxx andbT.
by apply/forall_inP => p; apply: leader_member.
Qed.

(** A leader leads at the next layer, too. *)
Lemma leads_layer b Z i : 0 <= b < 1 -> leads Z i -> leads (layer b Z) i.
Proof.
move=> b01 lead; apply/leadsP => j.
rewrite (attended_layer b01 (leader_decided lead)) => jC.
rewrite !leader_layer ?(leader_member lead jC) //.
by move/leadsP: lead; apply.
Qed.

(** The hypotheses of C1 survive one layer, with the same centroid. *)
Lemma centroid_layer b Z i :
  0 <= b < 1 -> decided Z i -> centroid (layer b Z) i = centroid Z i.
Proof.
move=> b01 dec; rewrite /centroid attended_layer //; apply: eq_mean => q qC.
by apply: leader_layer; case/andP: dec => /forall_inP lead _; apply: lead.
Qed.

Lemma decided_layer b Z i : 0 <= b < 1 -> decided Z i -> decided (layer b Z) i.
Proof.
move=> b01 dec; have /andP[/forall_inP lead /subsetP sub] := dec.
rewrite /decided attended_layer // centroid_layer //; apply/andP; split.
  by apply/forall_inP => q /lead; apply: leads_layer.
apply/subsetP => q qC; have [iq best] := argmaxP _ _ _ _ (sub q qC).
apply/argmaxP; split; first exact: iq.
move=> p ip; rewrite [layer b Z q](leader_layer b (lead q qC)).
exact: score_layer_le b01 best ip.
Qed.

(** Every token moves along the segment from z_i to c_i. *)
Lemma layer_sub_centroid b Z i :
  layer b Z i - centroid Z i = (1 - b) *: (Z i - centroid Z i).
Proof. by rewrite /layer scalerBr -addrA; congr (_ + _); rewrite scalerBl scale1r opprB. Qed.

(** ** All later layers *)

Section Layers.

(** [b s] is the step of layer [s], [Z s] the positions before it. *)
Variable b : nat -> R.
Hypothesis steps : forall s, 0 <= b s < 1.
Variable Z0 : tokens.

Local Notation Z := (run b Z0).

(** A property that each layer hands on to the next holds for ever. *)
Lemma for_ever (P : nat -> Prop) k m :
  (forall s, (k <= s)%N -> P s -> P s.+1) -> (k <= m)%N -> P k -> P m.
Proof.
move=> next /subnK<- Pk.
by elim: (m - k)%N => // s Ps; rewrite addSn; apply: next; rewrite ?leq_addl.
Qed.

(** *** Leader lemma

    If every member of C_i(Z^k) has the position of [i], then [i] never moves
    again and leads at every later layer, with the same argmax set. *)
Theorem leader_lemma i k m :
    (k <= m)%N -> leads (Z k) i ->
  [/\ Z m i = Z k i, leads (Z m) i & attended (Z m) i = attended (Z k) i].
Proof.
move=> km lead; pose P s :=
  [/\ Z s i = Z k i, leads (Z s) i & attended (Z s) i = attended (Z k) i].
apply: (@for_ever P k m) => // s _ [stay leads_s same]; split=> /=.
- by rewrite leader_layer.
- exact: leads_layer.
- by rewrite attended_layer // leader_decided.
Qed.

(** *** C1

    For any reflexive and transitive mask: if every member of C_i leads at
    layer k, and C_i lies in argmax_{p seen by i} <A c_i, z_p>, then C_i and
    c_i are the same at every later layer m, and

      z_i^m - c_i = (1 - b_k) ... (1 - b_{m-1}) (z_i^k - c_i). *)
Theorem C1 i k m :
    (k <= m)%N ->
    (forall q, q \in attended (Z k) i -> leads (Z k) q) ->
    attended (Z k) i \subset argmax (Z k) i (centroid (Z k) i) ->
  [/\ attended (Z m) i = attended (Z k) i,
      centroid (Z m) i = centroid (Z k) i &
      Z m i - centroid (Z k) i = contraction b k m *: (Z k i - centroid (Z k) i)].
Proof.
move=> km lead sub.
have dec: decided (Z k) i by rewrite /decided sub andbT; apply/forall_inP.
pose P s := decided (Z s) i /\
  [/\ attended (Z s) i = attended (Z k) i, centroid (Z s) i = centroid (Z k) i &
      Z s i - centroid (Z k) i = contraction b k s *: (Z k i - centroid (Z k) i)].
suff [] : P m by [].
apply: (@for_ever P k m) => // [s ks [dec_s [same_set same_centroid moved]] | ]; last first.
  by split=> //; rewrite /contraction big_geq // scale1r.
split; first exact: decided_layer.
split; rewrite /= ?attended_layer ?centroid_layer //.
rewrite -same_centroid layer_sub_centroid same_centroid moved scalerA.
by rewrite /contraction big_nat_recr // mulrC.
Qed.

End Layers.

(** ** What a certificate checker tests *)

(** A certificate states for every token [i] a set [S i] and a limit [c i].
    The checker tests at the positions [Z] of one layer, for every [i]:
    - the set is not empty, and [i] sees its members;
    - along A z_i the members are level and all other seen tokens strictly below;
    - the limit is the mean of the set;
    - every member [q] leads: the members of its own set have its position;
    - along A c_i no seen token is above a member. *)
Definition accepts Z (S : 'I_n -> {set 'I_n}) (c : tokens) : bool :=
  [forall i,
    [&& S i != set0,
        [forall q in S i, sees i q],
        [forall q in S i, forall p, sees i p ==>
           if p \in S i then score (Z i) (Z p) == score (Z i) (Z q)
           else score (Z i) (Z p) < score (Z i) (Z q)],
        c i == mean Z (S i),
        [forall q in S i, forall r in S q, Z r == Z q] &
        [forall q in S i, forall p, sees i p ==>
           (score (c i) (Z p) <= score (c i) (Z q))]]].

(** The checker accepts exactly if the stated sets and limits are the argmax
    sets and centroids of this layer, and C1 applies to every token. *)
Lemma acceptsP Z (S : 'I_n -> {set 'I_n}) (c : tokens) :
  reflect (forall i, [/\ attended Z i = S i, centroid Z i = c i & decided Z i])
          (accepts Z S c).
Proof.
apply: (iffP forallP) => [tests i | facts i].
  have same j : attended Z j = S j.
    have /and5P[nonempty seen levels _ _] := tests j.
    have level q p : q \in S j -> sees j p -> _ :=
      fun qS => implyP (forallP (forall_inP levels q qS) p).
    apply: argmax_unique => //.
    - exact/forall_inP.
    - move=> q r qS rS; apply/eqP; have := level r q rS.
      by rewrite qS; apply; apply: (forall_inP seen).
    - by move=> q qS p jp pS; have := level q p qS jp; rewrite (negbTE pS).
  have /and5P[_ _ _ /eqP mean_i /andP[lead best]] := tests i.
  have c_i: centroid Z i = c i by rewrite mean_i -same.
  split=> //; rewrite /decided c_i same; apply/andP; split.
    by apply/forall_inP => q qS; rewrite /leads same; apply: (forall_inP lead).
  apply/subsetP => q qS; have /forallP above := forall_inP best q qS.
  apply/argmaxP; split=> [|p]; last exact/implyP.
  by have /and3P[_ /forall_inP seen _] := tests i; apply: seen.
have [same c_i /andP[lead sub]] := facts i.
have member q : q \in S i -> q \in attended Z i by rewrite same.
apply/and5P; split.
- by rewrite -same argmax_nonempty.
- by apply/forall_inP => q /member/argmaxP[].
- apply/forall_inP => q /member qC; apply/forallP => p; apply/implyP => ip.
  rewrite -same; case: ifPn => pC; first by rewrite (argmax_equal pC qC).
  exact: argmax_strict qC ip pC.
- by rewrite -c_i -same.
- apply/andP; split; apply/forall_inP => q /member qC.
    by have [<- _ _] := facts q; apply: (forall_inP lead).
  apply/forallP => p; apply/implyP; rewrite -c_i.
  by have /argmaxP[_] := subsetP sub q qC; apply.
Qed.

(** *** Acceptance

    If the checker accepts at layer k, the stated sets are the argmax sets of
    every later layer m, and

      z_i^m = c_i + (1 - b_k) ... (1 - b_{m-1}) (z_i^k - c_i). *)
Theorem acceptance (b : nat -> R) (Z0 c : tokens) k (S : 'I_n -> {set 'I_n}) :
    (forall s, 0 <= b s < 1) -> accepts (run b Z0 k) S c ->
  forall i m, (k <= m)%N ->
    attended (run b Z0 m) i = S i /\
    run b Z0 m i = c i + contraction b k m *: (run b Z0 k i - c i).
Proof.
move=> steps /acceptsP facts i m km; have [<- <- dec] := facts i.
have /andP[/forall_inP lead sub] := dec.
have [same _ moved] := C1 steps km lead sub.
by split; rewrite // -moved addrC subrK.
Qed.

End Hardmax.

(** ** Full attention: Theorems 1 and 4 *)

(** Every token sees every token. *)
Definition full {n} : rel 'I_n := fun _ _ => true.

Section FullAttention.

Variables (R : realFieldType) (n d : nat) (A : 'M[R]_d).
Variable b : nat -> R.
Hypothesis steps : forall s, 0 <= b s < 1.
Variable Z0 : tokens R n d.

Local Notation Z := (run A full b Z0).
Local Notation attended := (attended A full).
Local Notation centroid := (centroid A full).
Local Notation leads := (leads A full).

(** *** Theorem 4

    If every member of C_i leads at layer k, and C_i lies in
    argmax_j <A c_i, z_j^k>, then C_i is final and z_i tends to c_i. *)
Theorem theorem4 i k m :
    (k <= m)%N ->
    (forall q, q \in attended (Z k) i -> leads (Z k) q) ->
    (forall q, q \in attended (Z k) i ->
       forall j, score A (centroid (Z k) i) (Z k j) <= score A (centroid (Z k) i) (Z k q)) ->
  [/\ attended (Z m) i = attended (Z k) i,
      centroid (Z m) i = centroid (Z k) i &
      Z m i - centroid (Z k) i = contraction b k m *: (Z k i - centroid (Z k) i)].
Proof.
move=> km lead best; apply: C1 => //.
by apply/subsetP => q qC; apply/argmaxP; split=> // p _; apply: best.
Qed.

(** *** Theorem 1

    If C_i = {l} and C_l = {l} at layer k, then C_i = {l} at every later layer,
    whatever the other tokens do; [l] stands still and z_i tends to z_l. *)
Theorem theorem1 i l k m :
    (k <= m)%N ->
    attended (Z k) i = [set l] -> attended (Z k) l = [set l] ->
  [/\ attended (Z m) i = [set l],
      Z m l = Z k l &
      Z m i - Z k l = contraction b k m *: (Z k i - Z k l)].
Proof.
move=> km Ci Cl.
have lead: leads (Z k) l by apply/leadsP => j; rewrite Cl => /set1P->.
have c_l: centroid (Z k) i = Z k l.
  rewrite /centroid Ci; apply: mean_equal => [|j /set1P->] //.
  by apply/set0Pn; exists l; rewrite inE.
have members q : q \in attended (Z k) i -> q = l by rewrite Ci => /set1P.
have [||set_m _] := @theorem4 i k m km; first by move=> q /members->.
  move=> q /members-> j; rewrite c_l.
  by have /argmaxP[_] : l \in attended (Z k) l; [rewrite Cl inE | apply].
rewrite c_l => moved; split=> //; first by rewrite set_m.
by have [] := leader_lemma _ _ steps km lead.
Qed.

End FullAttention.

(** ** Rates *)

(** With a constant alpha, the factor per layer is rho = 1/(1 + alpha). *)
Lemma contraction_alpha (R : realFieldType) (alpha : R) k m :
    0 <= alpha ->
  contraction (fun=> alpha / (1 + alpha)) k m = (1 + alpha)^-1 ^+ (m - k).
Proof.
move=> alpha0; rewrite /contraction prodr_const_nat; congr (_ ^+ _).
have nz: 1 + alpha != 0 by apply/lt0r_neq0/(ltr_spaddl ltr01).
by apply: (mulIf nz); rewrite mulrBl mul1r divfK // mulVf // addrK.
Qed.

Section Limits.

Variable R : archiFieldType.
Implicit Types (b : nat -> R) (bmin eps : R).

(** Bernoulli's inequality, for (1 - bmin)^m. *)
Lemma power_bound bmin m : 0 <= bmin <= 1 -> (1 - bmin) ^+ m * (1 + m%:R * bmin) <= 1.
Proof.
move=> /andP[bmin_ge0 bmin_le1]; elim: m => [|m IHm]; first by rewrite mul1r mul0r addr0.
apply: le_trans IHm; rewrite exprSr -mulrA; apply: ler_wpmul2l.
  by rewrite exprn_ge0 // subr_ge0.
rewrite mulrBl mul1r ler_subl_addr -addn1 natrD mulrDl mul1r addrA ler_add2l.
by rewrite ler_pemulr // -addrA ler_addl addr_ge0 // mulr_ge0 ?ler0n.
Qed.

(** The steps must not tend to 0: with b s >= bmin > 0 the product tends to 0. *)
Lemma contraction_small b bmin k eps :
    0 < bmin -> (forall s, bmin <= b s < 1) -> 0 < eps ->
  exists M, forall m, (M <= m)%N -> (k <= m)%N /\ 0 <= contraction b k m < eps.
Proof.
move=> bmin_gt0 steps eps_gt0.
have bmin_lt1: bmin < 1 by have /andP[/le_lt_trans] := steps 0%N; apply.
have nonneg: 0 <= (eps * bmin)^-1 by rewrite invr_ge0 mulr_ge0 ?ltW.
pose N := Num.bound (eps * bmin)^-1.
exists (k + N)%N => m large.
have km: (k <= m)%N by apply: leq_trans large; rewrite leq_addr.
split=> //; apply/andP; split.
  by rewrite prodr_ge0 // => s _; rewrite subr_ge0 ltW //; case/andP: (steps s).
have le_power: contraction b k m <= (1 - bmin) ^+ (m - k).
  rewrite -prodr_const_nat; apply: ler_prod => s _; have /andP[lo hi] := steps s.
  by rewrite subr_ge0 (ltW hi) ler_add2l ler_opp2.
apply: le_lt_trans le_power _.
have big: 1 < eps * (1 + (m - k)%:R * bmin).
  rewrite mulrDr mulr1 mulrCA; apply: ltr_spaddl => //.
  rewrite -ler_pdivr_mulr ?mulr_gt0 // mul1r; apply: ltW.
  apply: lt_le_trans (archi_boundP nonneg) _.
  by rewrite ler_nat leq_subRL.
have pos: 0 < 1 + (m - k)%:R * bmin.
  by apply: (ltr_spaddl ltr01); rewrite mulr_ge0 ?ler0n ?ltW.
rewrite -(ltr_pmul2r pos); apply: le_lt_trans big.
by apply: power_bound; rewrite !ltW.
Qed.

Variables (n d : nat) (A : 'M[R]_d) (sees : rel 'I_n).
Hypothesis sees_refl : reflexive sees.
Hypothesis sees_trans : transitive sees.

(** *** Accepted limits are the limits

    If the checker accepts, and the steps are at least bmin > 0 (for a constant
    alpha > 0, they are), every coordinate of every token converges to the stated
    limit. *)
Theorem acceptance_limit b bmin (Z0 c : tokens R n d) k (S : 'I_n -> {set 'I_n}) :
    0 < bmin -> (forall s, bmin <= b s < 1) -> accepts A sees (run A sees b Z0 k) S c ->
  forall eps, 0 < eps -> exists M, forall m, (M <= m)%N ->
    forall i x, `|run A sees b Z0 m i 0 x - c i 0 x| < eps.
Proof.
move=> bmin_gt0 steps accepted eps eps_gt0.
have steps01 s : 0 <= b s < 1.
  by have /andP[lo ->] := steps s; rewrite andbT (le_trans (ltW bmin_gt0)).
pose size i x := `|run A sees b Z0 k i 0 x - c i 0 x|.
pose D := 1 + \sum_i \sum_x size i x.
have size_ge0 i x : 0 <= size i x by rewrite normr_ge0.
have D_gt0: 0 < D by apply: (ltr_spaddl ltr01); do 2!apply: sumr_ge0 => ? _.
have size_le i x : size i x <= D.
  apply: ler_paddl => //; apply: (@le_trans _ _ (\sum_y size i y)).
    by rewrite (bigD1 x) //= ler_addl sumr_ge0.
  by rewrite (bigD1 i) //= ler_addl; do 2!apply: sumr_ge0 => ? _.
have [M small] := contraction_small k bmin_gt0 steps (divr_gt0 eps_gt0 D_gt0).
exists M => m /small[km /andP[ge0 lt]] i x.
have [_ ->] := acceptance sees_refl sees_trans steps01 accepted i km.
rewrite !mxE addrAC subrr add0r normrM ger0_norm //.
apply: le_lt_trans (ler_wpmul2l ge0 (size_le i x)) _.
by rewrite -ltr_pdivl_mulr.
Qed.

End Limits.

(** ** The rational case, in which the program computes

    The statements above hold in every ordered field (limits: in every
    Archimedean one).  These are their instances over the rationals. *)

Definition leader_lemma_rational := @leader_lemma rat_realFieldType.
Definition C1_rational := @C1 rat_realFieldType.
Definition theorem4_rational := @theorem4 rat_realFieldType.
Definition theorem1_rational := @theorem1 rat_realFieldType.
Definition acceptance_rational := @acceptance rat_realFieldType.
Definition acceptance_limit_rational := @acceptance_limit [archiFieldType of rat].

(** The build prints each statement and the axioms that its proof uses: none. *)

Check leader_lemma.
Print Assumptions leader_lemma_rational.
Check C1.
Print Assumptions C1_rational.
Check theorem4.
Print Assumptions theorem4_rational.
Check theorem1.
Print Assumptions theorem1_rational.
Check acceptsP.
Print Assumptions acceptsP.
Check acceptance.
Print Assumptions acceptance_rational.
Check contraction_alpha.
Print Assumptions contraction_alpha.
Check acceptance_limit.
Print Assumptions acceptance_limit_rational.
