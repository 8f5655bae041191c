// Check a certificate of a limit with exact integers: the same tests and limits as
// hardmax/certificate_checker.py, which explains them.

const FORMAT = "hardmax-certificate-1";
const FIELDS = [
  ...["format", "alpha", "A", "mask", "tokens", "labels", "layer", "sets", "changes"],
  ...["proofs", "positions", "leaders", "points", "limits", "weights"],
];
const KINDS = ["Theorem 1", "Theorem 4", "C1", "T", "chain"];
const CLOSED = ["T", "chain"];
const NUMBER = /^-?[0-9]+(\/0*[1-9][0-9]*)?$/;

const MAX_CHARACTERS = 100_000;
const MAX_BITS = 160_000;
const MAX_TOTAL_BITS = 50_000_000;
const MAX_MASKED = 50_000;
const MAX_LEVELS = 50;
const MAX_LEVEL_BITS = 2 ** 17;
const MAX_EXPONENT = 1000n;
const UNIT = 2n ** 64n;

// A reason to reject a document. It contains no text of the document.
class Fault extends Error {}

function require(holds, reason) {
  if (!holds) throw new Fault(reason);
}

// Integers

const size = (x) => (x < 0n ? -x : x);

// The number of bits of a positive integer.
function bits(x) {
  const digits = x.toString(16);
  return 4 * (digits.length - 1) + parseInt(digits[0], 16).toString(2).length;
}

// The greatest common divisor, by Lehmer's algorithm: the quotients of long numbers
// follow from their first 52 bits, as long as all numbers with these bits have the same.
function gcd(x, y) {
  [x, y] = [size(x), size(y)];
  if (x < y) [x, y] = [y, x];
  let shift = x ? Math.max(bits(x) - 52, 0) : 0;
  while (y >> 52n) {
    let a = Number(x >> BigInt(shift));
    while (a < 2 ** 44) {
      shift = Math.max(shift - 8, 0);
      a = Number(x >> BigInt(shift));
    }
    let b = Number(y >> BigInt(shift));
    let [A, B, C, D] = [1, 0, 0, 1];
    while (b + C > 0 && b + D > 0) {
      const quotient = Math.floor((a + A) / (b + C));
      if (quotient !== Math.floor((a + B) / (b + D))) break;
      [A, C] = [C, A - quotient * C];
      [B, D] = [D, B - quotient * D];
      [a, b] = [b, a - quotient * b];
    }
    if (B === 0) [x, y] = [y, x % y];
    else {
      const [p, q, r, s] = [A, B, C, D].map(BigInt);
      [x, y] = [p * x + q * y, r * x + s * y];
    }
  }
  while (y) [x, y] = [y, x % y];
  return x;
}

const lcm = (x, y) => (x % y === 0n ? x : (x / gcd(x, y)) * y);
const dot = (x, y) => x.reduce((sum, value, c) => sum + value * y[c], 0n);
const subtract = (x, y) => x.map((value, c) => value - y[c]);
const scale = (factor, row) => row.map((x) => factor * x);
const isZero = (row) => row.every((x) => x === 0n);
const key = (row) => row.map((x) => x.toString(16)).join(" ");

function choose(n, k) {
  if (k > n) return 0n;
  let result = 1n;
  for (let i = 0n; i < k; i++) result = (result * (n - i)) / (i + 1n);
  return result;
}

// Fractions [p, q] in lowest terms, q > 0

function fraction(p, q = 1n) {
  if (q === 1n) return [p, q];
  const common = gcd(p, q);
  return [p / common, q / common];
}

const add = ([a, b], [c, d]) => fraction(a * d + c * b, b * d);
const times = ([a, b], [c, d]) => fraction(a * c, b * d);

// Reading

function readList(values, length = null) {
  const good = Array.isArray(values) && (length === null || values.length === length);
  require(good, "a list is missing, or has the wrong length");
  return values;
}

function readNumber(text) {
  require(typeof text === "string", "a number is malformed");
  const reason = `a number has more than ${MAX_CHARACTERS} characters`;
  require(text.length <= MAX_CHARACTERS, reason);
  require(NUMBER.test(text), "a number is malformed");
  return fraction(...text.split("/").map(BigInt));
}

function readRows(rows, width = null) {
  readList(rows);
  if (width === null) {
    require(rows.length > 0, "a list of rows is empty");
    width = readList(rows[0]).length;
    require(width > 0, "a row is empty");
  }
  return rows.map((row) => readList(row, width).map(readNumber));
}

function readIndices(values, stop) {
  const good = readList(values).every((x) => Number.isInteger(x) && x >= 0 && x < stop);
  require(good, "an index is wrong");
  return values;
}

function readSet(values, stop) {
  const members = [...new Set(readIndices(values, stop))];
  require(members.length === values.length, "a set has an index twice");
  return members.sort((x, y) => x - y);
}

function readMembers(values, stop) {
  require(readList(values).length > 0, "a set is empty");
  return readSet(values, stop);
}

function requireBits(D, limit = MAX_BITS) {
  require(bits(D) <= limit, `a common denominator has more than ${limit} bits`);
}

// Rows times their common denominator, and this number.
function toIntegers(rows, limit = MAX_BITS) {
  let D = 1n;
  for (const [, q] of rows.flat()) {
    if (D % q === 0n) continue;
    D = lcm(D, q);
    requireBits(D, limit);
  }
  return [rows.map((row) => row.map(([p, q]) => p * (D / q))), D];
}

// Read a JSON text. JSON.parse accepts duplicate keys, and 1.0 for 1; a certificate has
// no numbers but integers.
function readText(text) {
  let document = null;
  try {
    document = JSON.parse(text);
  } catch {
    require(false, "the text is not JSON");
  }
  const bare = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, "");
  require(!/[0-9][.eE]/.test(bare), "a number is no integer");
  const keys = Object.keys(document ?? []);
  require(bare.split(":").length - 1 === keys.length, "a key occurs twice");
  return document;
}

// Yield indices, each after those that it needs; cycles, and what needs them, are left out.
function* inOrder(needs) {
  const missing = needs.map((own) => own.length);
  const neededBy = needs.map(() => []);
  needs.forEach((own, i) => own.forEach((j) => neededBy[j].push(i)));
  const ready = [...needs.keys()].filter((i) => missing[i] === 0);
  while (ready.length) {
    const j = ready.pop();
    yield j;
    for (const i of neededBy[j]) if (--missing[i] === 0) ready.push(i);
  }
}

class Proof {
  constructor(document) {
    const given = document !== null && typeof document === "object" ? Object.keys(document) : [];
    const good = given.length === FIELDS.length && FIELDS.every((name) => given.includes(name));
    const reason = `the format is not ${FORMAT} with ${FIELDS.length} fields`;
    require(good && document.format === FORMAT, reason);
    this.document = document;

    [this.alpha] = readRows([document.alpha]);
    require(this.alpha.every(([p]) => p > 0n), "alpha is not positive");
    [this.rows, this.D] = toIntegers(readRows(document.tokens));
    this.totalBits = bits(this.D);
    this.n = this.rows.length;
    this.d = this.rows[0].length;
    this.A = document.A === null ? null : toIntegers(readRows(document.A, this.d))[0];
    require(this.A === null || this.A.length === this.d, "A is not square");

    this.every = [...this.rows.keys()];
    this.mask = document.mask;
    this.masked = this.mask !== null;
    if (this.masked && this.mask !== "causal") this.closure = this.readMask(this.mask);
    if (this.masked) require(document.labels === null, "labels are not null under a mask");
    const labels = this.masked ? this.every : readIndices(document.labels, this.n);
    this.tokens = labels.length;
    this.counts = new Array(this.n).fill(0n);
    for (const label of labels) this.counts[label] += 1n;
    require(this.counts.every((count) => count > 0n), "a token has no label");
    this.order = [...new Set(labels)]; // tokens in the order of the inputs

    const sets = readList(document.sets, this.n);
    this.sets = sets.map((members) => readMembers(members, this.n));
    this.layer = readList(document.changes).length;
    const proofs = readList(document.proofs).map((proof) => readList(proof, 2));
    require(proofs.length === this.n, "a token has no proof");
    this.kinds = proofs.map(([kind]) => kind);
    require(this.kinds.every((kind) => KINDS.includes(kind)), "a kind of proof is not known");
    this.since = readIndices(proofs.map((proof) => proof[1]), this.layer + 1);
    const last = this.since.reduce((x, y) => Math.max(x, y), 0);
    const whole = this.layer === document.layer && last === this.layer;
    require(whole, "the layer is not that of the last proof");

    const points = readRows(document.points, this.d);
    const limits = readList(readIndices(document.limits, points.length), this.n);
    const distinct = new Set(points.map((row) => key(row.flat())));
    require(distinct.size === points.length, "points are equal");
    require(new Set(limits).size === points.length, "a point is no limit");
    [this.points, this.pointsD] = toIntegers(points, 2 * MAX_BITS);
    this.limits = limits.map((p) => this.points[p]);

    this.leads = new Set();
    this.proved = new Set();
    this.tested = 0;
  }

  // Per token all tokens that it sees, as the bits of an integer.
  readMask(mask) {
    require(this.n <= MAX_MASKED, `a mask of lists has more than ${MAX_MASKED} tokens`);
    const direct = readList(mask, this.n).map((row) => readSet(row, this.n));
    const closure = new Array(this.n).fill(0n);
    for (const i of inOrder(direct)) {
      closure[i] = 1n << BigInt(i);
      for (const j of direct[i]) closure[i] |= closure[j];
    }
    require(closure.every((own) => own > 0n), "the mask has a cycle");
    return closure;
  }

  sees(i) {
    if (!this.masked) return this.every;
    if (this.mask === "causal") return this.every.slice(0, i + 1);
    const digits = this.closure[i].toString(2);
    const seen = [];
    for (let j = 0; j < digits.length; j++)
      if (digits[digits.length - 1 - j] === "1") seen.push(j);
    return seen;
  }

  replay() {
    for (let k = 0; k <= this.layer; k++) {
      if (k) {
        this.move(this.alpha[Math.min(k, this.alpha.length) - 1]);
        this.changeSets(this.document.changes[k - 1]);
      }
      for (const i of this.every) {
        if (this.proved.has(i)) continue;
        this.checkSet(i, this.rows[i], true);
        const stands = (j) => this.rows[j].every((x, c) => x === this.rows[i][c]);
        if (this.sets[i].every(stands)) this.leads.add(i);
      }
      const provedHere = this.every.filter((i) => this.since[i] === k);
      const closed = provedHere.filter((i) => CLOSED.includes(this.kinds[i]));
      for (const i of provedHere) if (!CLOSED.includes(this.kinds[i])) this.checkLeaders(i);
      for (const i of provedHere) this.proved.add(i);
      if (closed.length) {
        require(k >= this.alpha.length - 1, "alpha is not constant after T or chain");
        this.checkClosedForms(closed);
      }
    }
  }

  move([p, q]) {
    const totals = this.every.map((i) => this.total(i));
    const common = totals.reduce(lcm, 1n);
    this.D *= (p + q) * common;
    requireBits(this.D);
    this.totalBits += bits(this.D);
    const reason = `the common denominators of all layers have more than ${MAX_TOTAL_BITS} bits`;
    require(this.totalBits <= MAX_TOTAL_BITS, reason);
    const stay = q * common;
    this.rows = this.rows.map((row, i) => {
      const pull = p * (common / totals[i]);
      const attracting = this.sum(i, this.rows);
      return row.map((x, c) => stay * x + pull * attracting[c]);
    });
  }

  changeSets(changes) {
    const changed = new Set();
    for (const change of readList(changes)) {
      const [index, members] = readList(change, 2);
      const [i] = readIndices([index], this.n);
      require(!changed.has(i), `the set of token ${i} changes twice in a layer`);
      require(!this.proved.has(i), `the set of token ${i} changes after its proof`);
      changed.add(i);
      this.sets[i] = readMembers(members, this.n);
    }
  }

  // The number of inputs in C_i.
  total(i) {
    return this.sets[i].reduce((sum, j) => sum + this.counts[j], 0n);
  }

  // The sum of rows over the inputs in C_i.
  sum(i, rows) {
    return this.rows[i].map((_, c) =>
      this.sets[i].reduce((all, j) => all + this.counts[j] * rows[j][c], 0n),
    );
  }

  image(row) {
    return this.A === null ? row : this.A.map((line) => dot(line, row));
  }

  checkSet(i, point, strict) {
    const query = this.image(point);
    const seen = this.sees(i);
    const members = new Set(this.sets[i]);
    const best = dot(query, this.rows[this.sets[i][0]]);
    let found = 0;
    for (const j of seen) {
      const product = dot(query, this.rows[j]);
      const isMember = members.has(j);
      if (isMember) found += 1;
      const below = product < best || (product === best && !strict);
      require(isMember ? product === best : below, `the set of token ${i} is wrong`);
    }
    require(found === members.size, `the set of token ${i} is wrong`);
    this.tested += seen.length;
  }

  checkLeaders(i) {
    const kind = this.kinds[i];
    const single = kind === "Theorem 1";
    const applies = (kind === "C1") === this.masked && (!single || this.sets[i].length === 1);
    require(applies, `${kind} does not apply to token ${i}`);
    const lead = this.sets[i].every((j) => this.leads.has(j));
    require(lead, `token ${i} follows a token that does not lead`);
    // The sum is the mean times a positive number.
    if (!single && !this.leads.has(i)) this.checkSet(i, this.sum(i, this.rows), false);
  }

  checkClosedForms(closed) {
    const moving = [...this.proved].filter((i) => !this.leads.has(i));
    for (const i of moving) {
      const follows = this.sets[i].every((j) => this.proved.has(j));
      require(follows, `token ${i} follows a token that is not proved`);
    }
    const [s, a] = this.closedForms(moving);

    // A product of two polynomials of degree R is known by its values at 0, ..., 2R.
    const moments = [...new Array(2 * a.length - 1).keys()];
    const at = moments.map((m) => {
      const factors = a.map((_, r) => choose(BigInt(m), BigInt(r)));
      const place = (i) => this.rows[i].map((_, c) => dot(factors, a.map((level) => level[i][c])));
      const level = new Array(this.n).fill(new Array(this.d).fill(0n));
      for (const i of moving) level[i] = place(i);
      return level;
    });
    const [p, q] = this.alpha.at(-1);
    const whole = p + q; // rho = q / whole
    const peaks = [
      findPeaks(q, whole, a.length),
      findPeaks(q * q, whole * whole, moments.length),
      findPeaks(q, whole, moments.length),
    ];
    for (const i of closed) {
      const seen = this.sees(i);
      const proved = seen.every((j) => this.proved.has(j));
      require(proved, `token ${i} sees a token that is not proved`);
      const member = this.sets[i][0];
      const members = new Set(this.sets[i]);
      const As = this.image(s[i]);
      const Aa = a.map((level) => this.image(level[i]));
      const Az = at.map((level) => this.image(level[i]));
      for (const j of seen) {
        const S = subtract(s[member], s[j]);
        const gaps = a.map((level) => subtract(level[member], level[j]));
        const F0 = dot(As, S);
        const F1 = gaps.map((row, r) => dot(As, row) + dot(Aa[r], S));
        const products = at.map((level, m) => dot(Az[m], subtract(level[member], level[j])));
        const F2 = toBinomials(products);
        const stays = members.has(j) ? isZero([F0, ...F1, ...F2]) : isPositive(F0, F1, F2, peaks);
        require(stays, `the set of token ${i} may change, see token ${j}`);
        this.tested += 1;
      }
    }
  }

  // The limits s_i, and for each r the a_ir, all times one positive integer.
  closedForms(moving) {
    const D = lcm(this.D, this.pointsD);
    requireBits(D, 2 * MAX_BITS);
    const s = this.limits.map((row) => scale(D / this.pointsD, row));
    const zero = new Array(this.d).fill(0n);
    const fill = (place) => {
      const level = new Array(this.n).fill(zero);
      for (const i of moving) level[i] = place(i);
      return level;
    };
    const a = [fill((i) => subtract(scale(D / this.D, this.rows[i]), s[i]))];
    const [p, q] = this.alpha.at(-1);
    const common = moving.map((i) => this.total(i)).reduce(lcm, 1n);
    for (;;) {
      require(a.length <= this.n, "positions have no closed form");
      require(a.length <= MAX_LEVELS, `a chain has more than ${MAX_LEVELS} levels`);
      const length = (a.length - 1) * bits((p + q) * common);
      const reason = `the levels of a chain have more than ${MAX_LEVEL_BITS} bits`;
      require(length <= MAX_LEVEL_BITS, reason);
      const after = fill((i) => scale(p * (common / this.total(i)), this.sum(i, a.at(-1))));
      if (after.every(isZero)) break;
      a.push(after);
    }
    const factors = a.map((_, r) => (q * common) ** BigInt(a.length - 1 - r));
    const levels = a.map((level, r) => level.map((row) => scale(factors[r], row)));
    return [s.map((row) => scale(factors[0], row)), levels];
  }

  checkLimits() {
    const { document } = this;
    const positions = readList(readRows(document.positions, this.d), this.n);
    positions.forEach((row, i) => {
      const right = row.every(([p, q], c) => p * this.D === this.rows[i][c] * q);
      require(right, `the position of token ${i} is wrong`);
    });

    const at = new Map(); // the first leader at each position
    for (const i of this.order) {
      const place = key(this.rows[i]);
      if (this.leads.has(i) && !at.has(place)) at.set(place, i);
    }
    const leaders = readIndices(document.leaders, this.n);
    const first = [...at.values()];
    const same = leaders.length === first.length && first.every((i, p) => i === leaders[p]);
    require(same, "the leaders are not the first ones at each position");
    require(leaders.length <= this.points.length, "a leader has no point");
    const right = leaders.every((i, p) => this.isAt(i, this.points[p]));
    require(right, "the first points are not those of the leaders");

    this.limits.forEach((limit, i) => {
      const expected = this.leads.has(i) ? null : this.sum(i, this.limits);
      const total = this.total(i);
      const good = expected ? limit.every((x, c) => total * x === expected[c]) : this.isAt(i, limit);
      require(good, `the limit of token ${i} is wrong`);
    });
    this.checkWeights(readList(document.weights, this.n), at);
  }

  isAt(i, point) {
    return this.rows[i].every((x, c) => x * this.pointsD === point[c] * this.D);
  }

  checkWeights(stated, at) {
    const others = this.sets.map((members, i) =>
      this.leads.has(i) ? [] : members.filter((j) => j !== i),
    );
    const weights = new Array(this.n);
    const write = ([leader, [p, q]]) => [leader, q === 1n ? `${p}` : `${p}/${q}`];
    for (const i of inOrder(others)) {
      if (this.leads.has(i)) weights[i] = new Map([[at.get(key(this.rows[i])), [1n, 1n]]]);
      else weights[i] = this.meanWeights(others[i], weights);
      const written = [...weights[i]].sort(([x], [y]) => x - y).map(write);
      const right = JSON.stringify(stated[i]) === JSON.stringify(written);
      require(right, `weights of token ${i} are wrong`);
    }
    for (const i of this.every)
      require(weights[i] || stated[i] === null, `weights of token ${i} are wrong`);
  }

  meanWeights(members, weights) {
    const total = members.reduce((sum, j) => sum + this.counts[j], 0n);
    const sums = new Map();
    for (const j of members)
      for (const [leader, weight] of weights[j]) {
        const share = times(fraction(this.counts[j], total), weight);
        sums.set(leader, add(sums.get(leader) ?? [0n, 1n], share));
      }
    return sums;
  }
}

// f with values[m] = sum_r f[r] C(m, r): differences at 0.
function toBinomials(values) {
  const f = [];
  while (values.length) {
    f.push(values[0]);
    values = values.slice(1).map((x, m) => x - values[m]);
  }
  return f;
}

function isPositive(F0, F1, F2, peaks) {
  if (isZero([...F1.slice(1), ...F2.slice(1)])) {
    const start = F0 + F1[0] + F2[0]; // a parabola in t = rho^m
    const middle = 2n * F0 + F1[0];
    const noRoot = middle >= 0n || middle * middle < 4n * start * F0;
    if (start > 0n && F0 >= 0n && noRoot) return true;
  }
  const worst = (f, numerators) => dot(f.map((x) => (x < 0n ? -x : 0n)), numerators);
  const notNegative = (f) => f.every((x) => x >= 0n);
  const [[first, firstD], [second, secondD], [third, thirdD]] = peaks;
  if (F0) {
    const bound = worst(F1, first) * secondD + worst(F2, second) * firstD;
    return bound < F0 * firstD * secondD;
  }
  if (!isZero(F1)) return notNegative(F1) && worst(F2, third) < F1[0] * thirdD;
  return notNegative(F2) && F2[0] > 0n;
}

// Upper bounds of C(m, r) (p / q)^m over m >= 0 for r < size, as numerators over one
// denominator. The largest value is at m = floor(r q / (q - p)). It grows with p / q,
// which is rounded up to 64 bits, so that powers are short. Where m exceeds
// MAX_EXPONENT, the bound is the sum over all m.
function findPeaks(p, q, size) {
  const unit = UNIT << BigInt(bits(q / p));
  const u = (p * unit + q - 1n) / q;
  const v = unit - u;
  const orders = [...new Array(size).keys()].map(BigInt);
  const short = orders.filter((r) => r * unit <= MAX_EXPONENT * v);
  const exponents = short.map((r) => (r === 0n ? 0n : (r * unit) / v));
  const M = exponents.at(-1);
  const K = short.length === size ? 0n : BigInt(size);
  const numerators = orders.map((r, k) => {
    if (k >= short.length) return p ** r * q * (q - p) ** (K - r - 1n) * unit ** M;
    const m = exponents[k];
    return choose(m, r) * u ** m * unit ** (M - m) * (q - p) ** K;
  });
  return [numerators, unit ** M * (q - p) ** K];
}

// Check a document, or the text of one.
export function check(given) {
  try {
    const proof = new Proof(typeof given === "string" ? readText(given) : given);
    proof.replay();
    proof.checkLimits();
    return {
      accepted: true,
      reason: "",
      tokens: proof.tokens,
      layers: proof.layer,
      inequalities: proof.tested,
    };
  } catch (problem) {
    const reason = problem instanceof Fault ? problem.message : "the document is malformed";
    return { accepted: false, reason };
  }
}

// A button below a limit: it checks the certificate that the page contains.
export function mountCheck(host, document_) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Check this proof" });
  const answer = Object.assign(document.createElement("p"), { className: "hm-proof" });
  answer.setAttribute("role", "status");
  button.addEventListener("click", () => {
    const { accepted, reason, tokens, layers, inequalities } = check(document_);
    answer.textContent = accepted
      ? `Accepted: ${tokens} tokens, ${layers} layers, ${inequalities} inequalities tested with exact integers.`
      : `Rejected: ${reason}.`;
  });
  host.append(button, answer);
}
