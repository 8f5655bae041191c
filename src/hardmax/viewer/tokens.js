// Tokens of a trajectory as shapes of a picture. Positions between two frames are interpolated.

export const [LEADS, HIDDEN, RINGED, CROSS] = [1, 2, 3, 4]; // marks; those of a circle are 0

export class Tokens {
  // `positions` has shape (frames, n, dimension); `faces`, `edges` and `marks` have shape (frames, n): indices of the
  // palette, and marks.
  constructor({ hull = null, names = null, size = 1, star = 1, trail_step = 1, ...values }) {
    Object.assign(this, { hull, names, size, star, trail_step, ...values });
    this.n = this.texts.length;
    this.frames = this.positions.length / (this.n * this.dimension);
    this.all = [...Array(this.n).keys()];
  }

  at(frame, i) {
    const [k, share] = [Math.floor(frame), frame - Math.floor(frame)];
    const start = (k * this.n + i) * this.dimension;
    const next = share > 0 ? start + this.n * this.dimension : start;
    const point = [];
    for (let r = 0; r < this.dimension; r++)
      point.push((1 - share) * this.positions[start + r] + share * this.positions[next + r]);
    return point;
  }

  row(array, frame) {
    return array.subarray(Math.round(frame) * this.n, (Math.round(frame) + 1) * this.n);
  }

  trails(frame) {
    const frames = [...Array(Math.ceil(frame)).keys()].filter((k) => k % this.trail_step === 0);
    const paths = this.all.map((i) => [...frames.map((k) => this.at(k, i)), this.at(frame, i)]);
    return frame > 0 ? [{ kind: "lines", paths, alpha: Math.max(0.08, Math.min(0.6, 60 / this.n)) }] : [];
  }

  points(frame) {
    const [faces, edges, marks] = [this.faces, this.edges, this.marks].map((array) => this.row(array, frame));
    return {
      kind: "points",
      points: this.all.map((i) => this.at(frame, i)),
      colours: this.all.map((i) => this.palette[faces[i]]),
      edges: this.all.map((i) => this.palette[edges[i]]),
      stars: this.all.map((i) => Number(marks[i] === LEADS)),
      hidden: this.all.map((i) => marks[i] === HIDDEN || marks[i] === CROSS),
      texts: this.texts,
      names: this.names,
      size: this.size,
      star: this.star,
    };
  }

  shapes(frame) {
    const hull = this.hull && frame >= this.frames - 1 ? [{ kind: "polygon", ...this.hull }] : [];
    const marks = this.row(this.marks, frame);
    const marked = (mark) => this.all.filter((i) => marks[i] === mark).map((i) => this.at(frame, i));
    const rings = { kind: "rings", points: marked(RINGED), radius: 4.6 * this.size + 3.5, width: 1.2 };
    return [...hull, ...this.trails(frame), rings, this.points(frame), { kind: "crosses", points: marked(CROSS), size: 8 }];
  }
}
