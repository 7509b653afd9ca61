/* Sentences and numbers. Every sentence comes from the catalogues in assets/locales; numbers and token texts are never translated. */

/** Looks keys up in one language at a time; a key that is missing shows itself, so that a test finds it. */
class Words {
  constructor(locales, language) {
    this.locales = locales;
    this.language = this.known(language);
  }

  known(language) {
    const short = String(language || "").slice(0, 2).toLowerCase();
    return this.locales[short] ? short : "en";
  }

  use(language) {
    this.language = this.known(language);
  }

  has(key) {
    return Object.hasOwn(this.locales[this.language] || {}, key);
  }

  /** The text of a key with its {placeholders} filled; an argument that starts with "@" is itself looked up. */
  say(key, args) {
    const text = this.has(key) ? this.locales[this.language][key] : key;
    return fill(text, args, (value) => this.resolve(value));
  }

  /** "@key" and "@key|{json}" become sentences; any other string is literal. */
  resolve(value) {
    if (value && typeof value === "object" && "literal" in value) return value.literal;
    if (typeof value !== "string" || !value.startsWith("@")) return value;
    const bar = value.indexOf("|");
    const key = bar < 0 ? value.slice(1) : value.slice(1, bar);
    if (!this.has(key)) return value; // a token may start with "@" too
    if (bar < 0) return this.say(key);
    try {
      return this.say(key, JSON.parse(value.slice(bar + 1)));
    } catch {
      return value;
    }
  }
}

/** Wraps a text of a token among the arguments of a sentence, so that "@…" in it is never taken for a key. */
function literal(text) {
  return { literal: text };
}

function fill(text, args, resolve) {
  if (!args) return text;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(args, name) ? String(resolve(args[name])) : whole));
}

/**
 * A number with `digits` significant digits: the twin of specviz/analysis/quantities.py, digit for digit ("0.31", "1230", "4.2×10⁻⁴",
 * and "?" where there is none).
 */
function number(value, digits = 3) {
  if (value === null || value === undefined) return "?";
  if (value === 0) return "0";
  const [mantissa, exponent] = Math.abs(value).toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const figures = mantissa.replace(".", "").replace(/0+$/, "");
  return (value < 0 ? "-" : "") + (power >= -3 && power < 15 ? decimal(figures, power) : scientific(figures, power));
}

/** A value in a table: whole numbers and texts as they are, other numbers with three digits, "–" for what is not known. */
function written(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" && !Number.isInteger(value) ? number(value) : String(value);
}

function decimal(figures, power) {
  if (power < 0) return `0.${"0".repeat(-power - 1)}${figures}`;
  const whole = figures.slice(0, power + 1).padEnd(power + 1, "0");
  const rest = figures.slice(power + 1);
  return rest ? `${whole}.${rest}` : whole;
}

function scientific(figures, power) {
  const mantissa = figures.length > 1 ? `${figures[0]}.${figures.slice(1)}` : figures;
  return `${mantissa}×10${String(power).replace(/[-0-9]/g, (digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)])}`;
}

/** Numbers that stand beside each other: with more digits where two of them would read the same without being so. */
function compared(...values) {
  const known = [...new Set(values.filter((value) => value !== null && value !== undefined))];
  let digits = 3;
  while (digits < 17 && new Set(known.map((value) => number(value, digits))).size < known.length) digits += 1;
  return values.map((value) => number(value, digits));
}

/** A probability as a narrow column writes it: two decimals, three where two would say 0, and "<.001" below that. */
function probability(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 0.00995 || value === 0) return value.toFixed(2);
  return value >= 0.0005 ? value.toFixed(3) : "<.001";
}

function milliseconds(seconds) {
  const ms = seconds * 1000;
  return ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : number(ms, 2);
}

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

/** A quantity with an SI prefix: 3.2e11 FLOP/s → "320 GFLOP/s". */
function quantity(value, unit) {
  const [size, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) || PREFIXES[PREFIXES.length - 1];
  return `${number(value / size)} ${prefix}${unit}`;
}

/** An ISO time as the date in it; what is no date is shown as it came. */
function day(iso) {
  return /^\d{4}-\d\d-\d\d/.test(iso || "") ? iso.slice(0, 10) : String(iso || "");
}

const PICTURES = { " ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u007f": "␡" };
const UNSEEN = /[\s\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]/gu;

/** A token on a label of its own, as specviz/figures/text.py writes it: whatever cannot be seen is drawn, and no more than `limit`. */
function shown(text, limit = 24) {
  if (!text) return "∅";
  const characters = Array.from(text.slice(0, 4 * limit)); // a label never needs more, and a text may be very long
  const seen = characters.length > limit ? characters.slice(0, limit - 1).join("") + "…" : text;
  return seen.replace(UNSEEN, picture);
}

function picture(character) {
  if (PICTURES[character]) return PICTURES[character];
  if (character < " ") return String.fromCharCode(0x2400 + character.charCodeAt(0));
  if (character === "\u200d") return character; // joins the parts of an emoji
  return /\p{Zs}/u.test(character) ? "·" : `‹${character.codePointAt(0).toString(16).toUpperCase()}›`;
}
