// Check a certificate of a limit with exact integers: the same tests as hardmax/certificate_checker.py, which explains them.

const FORMAT = "hardmax-certificate-1";
const CLOSED = ["T", "chain"];
const MAX_EXPONENT = 1000;
const NUMBER = /^-?[0-9]+(\/0*[1-9][0-9]*)?$/;

function require(holds, reason) {
  if (!holds) throw new Error(reason);
}

// Fractions [p, q] in lowest terms, q > 0

const size = (x) => (x < 0n ? -x : x);

function gcd(x, y) {
  [x, y] = [size(x), size(y)];
  while (y) [x, y] = [y, x % y];
  return x;
}

const lcm = (x, y) => (x / gcd(x, y)) * y;

function fraction(p, q = 1n) {
  const common = gcd(p, q) || 1n;
  return q < 0n ? [-p / common, -q / common] : [p / common, q / common];
}

const [ZERO, ONE] = [[0n, 1n], [1n, 1n]];
const add = ([a, b], [c, d]) => fraction(a * d + c * b, b * d);
const negate = ([a, b]) => [-a, b];
const times = ([a, b], [c, d]) => fraction(a * c, b * d);
const over = ([a, b], [c, d]) => fraction(a * d, b * c);
const sign = ([a]) => (a > 0n ? 1 : a < 0n ? -1 : 0);
const compare = (x, y) => sign(add(x, negate(y)));
const key = (row) => row.map(([p, q]) => `${p}/${q}`).join(" ");
const dotFractions = (x, y) => x.reduce((sum, value, k) => add(sum, times(value, y[k])), ZERO);
const subtract = (x, y) => x.map((value, k) => add(value, negate(y[k])));
const isZero = (row) => row.every((x) => x[0] === 0n);

function power(x, exponent) {
  return [x[0] ** BigInt(exponent), x[1] ** BigInt(exponent)];
}

function choose(n, k) {
  let result = 1n;
  for (let i = 0; i < k; i++) result = (result * BigInt(n - i)) / BigInt(i + 1);
  return k > n ? 0n : result;
}

// Reading

function readList(values, size = null) {
  const good = Array.isArray(values) && (size === null || values.length === size);
  require(good, "a list is missing, or has the wrong length");
  return values;
}

function readRows(rows, width = null) {
  width ??= Math.max(readList(readList(rows)[0]).length, 1);
  for (const row of rows)
    for (const x of readList(row, width))
      require(typeof x === "string" && NUMBER.test(x), "a number is malformed");
  return rows.map((row) => row.map((x) => fraction(...x.split("/").map(BigInt))));
}

function readIndices(values, stop) {
  const good = readList(values).every((x) => Number.isInteger(x) && x >= 0 && x < stop);
  require(good, "an index is wrong");
  return values;
}

const readSet = (values, stop) => [...new Set(readIndices(values, stop))].sort((x, y) => x - y);

function toIntegers(rows) {
  const D = rows.flat().reduce((common, [, q]) => lcm(common, q), 1n);
  return [rows.map((row) => row.map(([p, q]) => p * (D / q))), D];
}

// Read a JSON text. JSON.parse accepts duplicate keys, and 1.0 for 1; a certificate has no numbers but integers.
function readText(text) {
  const document = JSON.parse(text);
  const bare = text.replace(/"(?:[^"\\]|\\.)*"/g, "");
  require(!/[0-9][.eE]/.test(bare), "a number is no integer");
  require(bare.split(":").length - 1 === Object.keys(document ?? []).length, "a key occurs twice");
  return document;
}

// Yield indices, each after those that it needs; cycles, and what needs them, are left out.
function* inOrder(needs) {
  const done = new Set();
  for (let left = [...needs.keys()], before = 0; left.length !== before; ) {
    before = left.length;
    const later = [];
    for (const i of left)
      if (needs[i].every((j) => done.has(j))) {
        done.add(i);
        yield i;
      } else later.push(i);
    left = later;
  }
}

class Proof {
  constructor(document) {
    const good = document?.format === FORMAT && Object.keys(document).length === 15;
    require(good, `the format is not ${FORMAT} with 15 fields`);
    this.document = document;
    this.tested = 0;
    [this.alpha] = readRows([document.alpha]);
    require(this.alpha.every((x) => sign(x) > 0), "alpha is not positive");
    [this.rows, this.D] = toIntegers(readRows(document.tokens));
    [this.n, this.d] = [this.rows.length, this.rows[0].length];
    this.A = document.A === null ? null : toIntegers(readRows(document.A, this.d))[0];
    require(this.A === null || this.A.length === this.d, "A is not square");
    this.masked = document.mask !== null;
    this.seen = this.readMask(document.mask);
    require(this.masked === (document.labels === null), "labels are wrong");
    const labels = this.masked ? [...this.rows.keys()] : readIndices(document.labels, this.n);
    this.tokens = labels.length;
    this.counts = new Array(this.n).fill(0n);
    for (const label of labels) this.counts[label] += 1n;
    require(this.counts.every((count) => count > 0n), "a token has no label");
    this.sets = readList(document.sets, this.n).map((members) => readSet(members, this.n));
    this.layer = readList(document.changes).length;
    const proofs = readList(document.proofs, this.n).map((proof) => readList(proof, 2));
    this.kinds = proofs.map(([kind]) => kind);
    this.since = readIndices(proofs.map((proof) => proof[1]), this.layer + 1);
    const last = this.since.reduce((x, y) => Math.max(x, y), 0);
    require(this.layer === document.layer && last === this.layer, "the layer is not that of the last proof");
    const known = ["Theorem 1", "Theorem 4", "C1", ...CLOSED];
    require(this.kinds.every((kind) => known.includes(kind)), "a kind of proof is not known");
    this.points = readRows(document.points, this.d);
    const limits = readList(readIndices(document.limits, this.points.length), this.n);
    const distinct = new Set(this.points.map(key)).size === this.points.length;
    require(distinct && new Set(limits).size === this.points.length, "points are equal, or a point is no limit");
    this.limits = limits.map((p) => this.points[p]);
    this.leads = new Set();
    this.proved = new Set();
  }

  readMask(mask) {
    const every = [...this.rows.keys()];
    if (mask === null) return every.map(() => every);
    if (mask === "causal") return every.map((i) => every.slice(0, i + 1));
    const direct = readList(mask, this.n).map((row) => readIndices(row, this.n));
    const seen = new Array(this.n);
    for (const i of inOrder(direct)) seen[i] = new Set([i, ...direct[i].flatMap((j) => [...seen[j]])]);
    require(every.every((i) => seen[i]), "the mask has a cycle");
    return seen.map((own) => [...own]);
  }

  replay() {
    for (let k = 0; k <= this.layer; k++) {
      if (k) {
        this.move(this.alpha[Math.min(k, this.alpha.length) - 1]);
        for (const change of readList(this.document.changes[k - 1])) {
          const [i, members] = readList(change, 2);
          require(!this.proved.has(i), `the set of token ${i} changes after its proof`);
          this.sets[readIndices([i], this.n)[0]] = readSet(members, this.n);
        }
      }
      for (let i = 0; i < this.n; i++) {
        if (this.proved.has(i)) continue;
        this.checkSet(i, this.rows[i], true);
        const stands = (j) => this.rows[j].every((x, c) => x === this.rows[i][c]);
        if (this.sets[i].every(stands)) this.leads.add(i);
      }
      const here = [...this.rows.keys()].filter((i) => this.since[i] === k);
      for (const i of here) if (!CLOSED.includes(this.kinds[i])) this.checkLeaders(i);
      for (const i of here) this.proved.add(i);
      const closed = here.filter((i) => CLOSED.includes(this.kinds[i]));
      if (closed.length) {
        require(k >= this.alpha.length - 1, "alpha is not constant after T or chain");
        this.checkClosedForm(closed);
      }
    }
  }

  total(i) {
    return this.sets[i].reduce((sum, j) => sum + this.counts[j], 0n);
  }

  move([p, q]) {
    const totals = this.sets.map((_, i) => this.total(i));
    const common = totals.reduce(lcm, 1n);
    this.rows = this.rows.map((row, i) => {
      const pull = p * (common / totals[i]);
      return row.map((x, c) => {
        const sum = this.sets[i].reduce((all, j) => all + this.counts[j] * this.rows[j][c], 0n);
        return q * common * x + pull * sum;
      });
    });
    this.D *= (p + q) * common;
  }

  checkSet(i, point, strict) {
    const dot = (x, y) => x.reduce((sum, value, c) => sum + value * y[c], 0n);
    const query = this.A === null ? point : this.A.map((line) => dot(line, point));
    const members = new Set(this.sets[i]);
    const best = dot(query, this.rows[this.sets[i][0]]);
    let found = 0;
    for (const j of this.seen[i]) {
      const product = dot(query, this.rows[j]);
      found += members.has(j) ? 1 : 0;
      const good = members.has(j) ? product === best : product < best || (product === best && !strict);
      require(good, `the set of token ${i} is not that of the largest products, see token ${j}`);
    }
    require(found === members.size, `token ${i} does not see its set`);
    this.tested += this.seen[i].length;
  }

  checkLeaders(i) {
    require(this.sets[i].every((j) => this.leads.has(j)), `token ${i} follows a token that does not lead`);
    const single = this.kinds[i] === "Theorem 1";
    const applies = (this.kinds[i] === "C1") === this.masked && (!single || this.sets[i].length === 1);
    require(applies, `${this.kinds[i]} does not apply to token ${i}`);
    if (single || this.leads.has(i)) return;
    const sums = this.rows[i].map((_, c) =>
      this.sets[i].reduce((all, j) => all + this.counts[j] * this.rows[j][c], 0n),
    );
    this.checkSet(i, sums, false);
  }

  mean(i, rows) {
    const total = [this.total(i), 1n];
    return rows[this.sets[i][0]].map((_, c) =>
      over(this.sets[i].reduce((sum, j) => add(sum, times([this.counts[j], 1n], rows[j][c])), ZERO), total),
    );
  }

  checkClosedForm(closed) {
    const alpha = this.alpha.at(-1);
    const rho = over([1n, 1n], add([1n, 1n], alpha));
    const proved = [...this.proved];
    const follows = proved.every((i) => this.sets[i].every((j) => this.proved.has(j)));
    require(follows, "a token follows one that is not proved");
    const s = this.limits.map((row) => row.map((x) => times([this.D, 1n], x)));
    const zero = new Array(this.d).fill(ZERO);
    const fill = (rows) => this.rows.map((_, i) => rows.get(i) ?? zero);
    const moving = proved.filter((i) => !this.leads.has(i));
    let level = fill(new Map(moving.map((i) => [i, subtract(this.rows[i].map((x) => [x, 1n]), s[i])])));
    const a = [level];
    while (!level.every(isZero)) {
      require(a.length <= this.n, "positions have no closed form");
      level = fill(new Map(moving.map((i) => [i, this.mean(i, level).map((x) => times(alpha, x))])));
      a.push(level);
    }
    const image = (row) =>
      this.A === null ? row : this.A.map((line) => dotFractions(line.map((x) => [x, 1n]), row));
    for (const i of closed) {
      require(this.seen[i].every((j) => this.proved.has(j)), `token ${i} sees a token that is not proved`);
      const member = this.sets[i][0];
      const [As, Aa] = [image(s[i]), a.map((rows) => image(rows[i]))];
      for (const j of this.seen[i]) {
        const S = subtract(s[member], s[j]);
        const q = a.map((rows) => subtract(rows[member], rows[j]));
        const F1 = q.map((row, r) => add(dotFractions(As, row), dotFractions(Aa[r], S)));
        const F2 = new Array(2 * q.length - 1).fill(ZERO);
        Aa.forEach((left, u) =>
          q.forEach((row, v) => {
            const product = dotFractions(left, row); // C(m,u) C(m,v) = sum_r C(r,u) C(u,r-v) C(m,r)
            for (let r = Math.max(u, v); r <= u + v; r++)
              F2[r] = add(F2[r], times(product, [choose(r, u) * choose(u, r - v), 1n]));
          }),
        );
        const F0 = dotFractions(As, S);
        const stays = this.sets[i].includes(j) ? isZero([F0, ...F1, ...F2]) : isPositive(F0, F1, F2, rho);
        require(stays, `the set of token ${i} may change, see token ${j}`);
        this.tested += 1;
      }
    }
  }

  checkLimits() {
    const { document } = this;
    const leaders = readIndices(document.leaders, this.n);
    const positions = readRows(document.positions, this.d);
    const right = positions.length === this.n && positions.every((row, i) => key(row) === this.place(i));
    require(right, "positions are wrong");
    const led = leaders.every((i) => this.leads.has(i));
    require(led, "a token that does not lead is among the leaders");
    const first = leaders.every((i, p) => p < this.points.length && key(this.points[p]) === key(positions[i]));
    require(first, "the first points are not those of the leaders");
    const at = new Map(leaders.map((i) => [key(positions[i]), i]));
    require([...this.leads].every((i) => at.has(key(positions[i]))), "a leader is missing");
    const others = this.sets.map((members, i) => (this.leads.has(i) ? [] : members.filter((j) => j !== i)));
    const known = new Array(this.n);
    for (const i of inOrder(others)) {
      if (this.leads.has(i)) known[i] = new Map([[at.get(key(positions[i])), ONE]]);
      else known[i] = this.meanWeights(others[i], known);
    }
    readList(document.weights, this.n).forEach((own, i) => {
      const expected = this.leads.has(i) ? positions[i] : this.mean(i, this.limits);
      require(key(this.limits[i]) === key(expected), `the limit of token ${i} is wrong`);
      const write = ([leader, [p, q]]) => [leader, q === 1n ? `${p}` : `${p}/${q}`];
      const weights = known[i] ? [...known[i]].sort(([x], [y]) => x - y).map(write) : null;
      require(JSON.stringify(own) === JSON.stringify(weights), `weights of token ${i} are wrong`);
    });
  }

  meanWeights(members, known) {
    const total = members.reduce((sum, j) => sum + this.counts[j], 0n);
    const sums = new Map();
    for (const j of members)
      for (const [leader, weight] of known[j])
        sums.set(leader, add(sums.get(leader) ?? ZERO, times([this.counts[j], total], weight)));
    return sums;
  }

  place(i) {
    return key(this.rows[i].map((x) => fraction(x, this.D)));
  }
}

function isPositive(F0, F1, F2, rho) {
  const worst = (coefficients, base) =>
    coefficients.reduce((sum, f, r) => {
      if (sign(f) >= 0) return sum;
      const [p, q] = over([BigInt(r), 1n], add([1n, 1n], negate(base)));
      const m = Number(p / q); // C(m, r) rho^m is largest at this m; for small steps use the sum over all m
      const large = over(power(base, r), power(add([1n, 1n], negate(base)), r + 1));
      const peak = m <= MAX_EXPONENT ? times([choose(m, r), 1n], power(base, m)) : large;
      return add(sum, times(negate(f), peak));
    }, ZERO);
  if (isZero([...F1.slice(1), ...F2.slice(1)])) {
    const start = add(add(F0, F1[0]), F2[0]); // a parabola in t = rho^m
    const middle = add(add(F0, F0), F1[0]);
    const bound = times(times([4n, 1n], start), F0);
    const open = sign(middle) >= 0 || compare(times(middle, middle), bound) < 0;
    if (sign(start) > 0 && sign(F0) >= 0 && open) return true;
  }
  if (sign(F0)) return compare(F0, add(worst(F1, rho), worst(F2, times(rho, rho)))) > 0;
  if (!isZero(F1)) return F1.every((x) => sign(x) >= 0) && compare(F1[0], worst(F2, rho)) > 0;
  return F2.every((x) => sign(x) >= 0) && sign(F2[0]) > 0;
}

// Check a document, or the text of one.
export function check(given) {
  try {
    const proof = new Proof(typeof given === "string" ? readText(given) : given);
    proof.replay();
    proof.checkLimits();
    return { accepted: true, reason: "", tokens: proof.tokens, layers: proof.layer, inequalities: proof.tested };
  } catch (problem) {
    return { accepted: false, reason: problem.message };
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
