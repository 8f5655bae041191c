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

const ZERO = [0n, 1n];
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

function readRows(rows, width = null) {
  require(Array.isArray(rows) && rows.length > 0, "rows of numbers are malformed");
  width ??= rows[0].length;
  for (const row of rows) {
    const good = Array.isArray(row) && row.length === width && width > 0;
    require(good && row.every((x) => typeof x === "string" && NUMBER.test(x)), "rows of numbers are malformed");
  }
  return rows.map((row) => row.map((x) => fraction(...x.split("/").map(BigInt))));
}

function readIndices(values, stop) {
  const good = Array.isArray(values) && values.every((x) => Number.isInteger(x) && x >= 0 && x < stop);
  require(good, "an index is wrong");
  return values;
}

function toIntegers(rows) {
  const D = rows.flat().reduce((common, [, q]) => lcm(common, q), 1n);
  return [rows.map((row) => row.map(([p, q]) => p * (D / q))), D];
}

class Proof {
  constructor(document) {
    require(document !== null && document?.format === FORMAT, `the format is not ${FORMAT}`);
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
    const labels = this.masked ? [...this.rows.keys()] : readIndices(document.labels, this.n);
    this.tokens = labels.length;
    this.counts = new Array(this.n).fill(0n);
    for (const label of labels) this.counts[label] += 1n;
    require(this.counts.every((count) => count > 0n), "a token has no label");
    this.sets = document.sets.map((members) => this.readSet(members));
    this.layer = document.changes.length;
    this.kinds = document.proofs.map(([kind]) => kind);
    this.since = readIndices(document.proofs.map((proof) => proof[1]), this.layer + 1);
    const complete = this.sets.length === this.n && this.kinds.length === this.n;
    require(complete, "there is not one set and one proof per token");
    const last = this.since.reduce((x, y) => Math.max(x, y), 0);
    require(this.layer === document.layer && last === this.layer, "the layer is not that of the last proof");
    const known = ["Theorem 1", "Theorem 4", "C1", ...CLOSED];
    require(this.kinds.every((kind) => known.includes(kind)), "a kind of proof is not known");
    this.points = readRows(document.points, this.d);
    const used = new Set(readIndices(document.limits, this.points.length));
    require(used.size === this.points.length && document.limits.length === this.n, "a point is no limit");
    this.limits = document.limits.map((p) => this.points[p]);
    this.leads = new Set();
    this.proved = new Set();
  }

  readMask(mask) {
    const every = [...this.rows.keys()];
    if (mask === null) return every.map(() => every);
    if (mask === "causal") return every.map((i) => every.slice(0, i + 1));
    const good = Array.isArray(mask) && mask.length === this.n;
    require(good && mask.every((row) => /^[01]+$/.test(row) && row.length === this.n), "the mask is malformed");
    const sees = (i, j) => mask[i][j] === "1";
    for (const i of every)
      for (const j of every)
        if (i === j) require(sees(i, i), `the mask is no partial order at token ${i}`);
        else if (sees(i, j)) {
          const order = !sees(j, i) && every.every((k) => !sees(j, k) || sees(i, k));
          require(order, `the mask is no partial order at token ${i}`);
        }
    return every.map((i) => every.filter((j) => sees(i, j)));
  }

  readSet(given) {
    const members = readIndices(given, this.n);
    const sorted = members.length > 0 && members.every((j, k) => k === 0 || members[k - 1] < j);
    require(sorted, "a set is empty or not sorted");
    return members;
  }

  replay() {
    for (let k = 0; k <= this.layer; k++) {
      if (k) {
        this.move(this.alpha[Math.min(k, this.alpha.length) - 1]);
        for (const [i, members] of this.document.changes[k - 1]) {
          require(!this.proved.has(i), `the set of token ${i} changes after its proof`);
          this.sets[readIndices([i], this.n)[0]] = this.readSet(members);
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
    const { leaders, weights, positions: given } = this.document;
    const positions = readRows(given, this.d);
    const right = positions.length === this.n && positions.every((row, i) => key(row) === this.place(i));
    require(right, "positions are wrong");
    const led = readIndices(leaders, this.n).every((i) => this.leads.has(i));
    require(led, "a token that does not lead is among the leaders");
    const first = leaders.every((i, p) => p < this.points.length && key(this.points[p]) === key(positions[i]));
    require(first, "the first points are not those of the leaders");
    const places = new Set(leaders.map((i) => key(positions[i])));
    require([...this.leads].every((i) => places.has(key(positions[i]))), "a leader is missing");
    const distinct = new Set(this.points.map(key)).size === this.points.length;
    require(distinct && weights.length === this.n, "points are equal");
    weights.forEach((own, i) => {
      const expected = this.leads.has(i) ? positions[i] : this.mean(i, this.limits);
      require(key(this.limits[i]) === key(expected), `the limit of token ${i} is wrong`);
      if (own === null && CLOSED.includes(this.kinds[i])) return;
      const on = readIndices(own.map(([j]) => j), this.n);
      const [shares] = readRows([own.map(([, w]) => w)]);
      const convex = shares.every((w) => sign(w) >= 0) && compare(shares.reduce(add, ZERO), [1n, 1n]) === 0;
      const known = new Set(on).size === on.length && on.every((j) => leaders.includes(j));
      const sums = positions[i].map((_, c) => dotFractions(shares, on.map((j) => positions[j][c])));
      require(convex && known && key(sums) === key(this.limits[i]), `weights of token ${i} are wrong`);
    });
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

export function check(document) {
  try {
    const proof = new Proof(document);
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
