// The default values of the scene of the playground.

export const UNMASKED = ["frank-wolfe"]; // rules without a causal mask

export const DEFAULTS = {
  rule: "hardmax",
  alpha: 0.5,
  A: null,
  temperature: 0.5,
  V: null,
  beta: 9,
  causal: false,
  layers: 30,
  time: 10,
  shown: 0,
  selected: -1,
  wanted: [],
  overlays: ["trails", "polytope"],
  colours: [],
};
