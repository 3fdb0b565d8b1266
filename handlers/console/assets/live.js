// What the service tells while a page is open: one stream for all pages.

/** Validators' replies: letter, kind, title, and what it means. */
export const REPLIES = {
  s: ["signed", "Signed", "counts towards the quorum"],
  p: ["unproven", "Not needed", "signed, after the quorum was reached"],
  a: ["asked", "Unanswered", "asked, had time left to answer"],
  n: ["notyet", "Not yet", "has not seen the message, is asked again"],
  r: ["refused", "Refused", "answered that it does not sign"],
  i: ["invalid", "Invalid", "answered with a signature that does not verify"],
  t: ["silent", "Timed out", "asked, did not answer in time"],
  o: ["offline", "No connection", "could not be asked"],
  u: ["unasked", "Not asked", "connected, the others were enough"],
};

/** What differs while a round is under way. */
const RUNNING = {
  p: ["unproven", "Received", "answered with a signature that is being verified"],
  a: ["asked", "Asked", "has time left to answer"],
  u: ["unasked", "Not asked", "connected, not needed so far"],
};

/** A reply as it is to be shown: kind, title and meaning. */
export const replyOf = (letter, running) => (running && RUNNING[letter]) || REPLIES[letter] || REPLIES.u;

const RETRY = 3000; // ms
const MOST_ROUNDS = 80;
const MOST_FRAMES = 500; // of a round, for its replay

export class Live extends EventTarget {
  constructor() {
    super();
    this.rounds = new Map(); // by ID, in the order in which they began
    this.sets = new Map();
    this.status = null;
    this.state = "connecting";
    this.handlers = [];
    const on = (type, f) => this.handlers.push([type, (e) => f.call(this, JSON.parse(e.data))]);
    on("status", (status) => {
      if (!status) return;
      this.status = status;
      this.tell("status");
    });
    on("rounds", ({ running, recent }) => {
      const ids = new Set([...running, ...recent].map((r) => r.id));
      for (const [id, round] of this.rounds) {
        // What was running, and is not heard of any more, ended meanwhile.
        if (!round.outcome && !ids.has(id)) this.rounds.delete(id);
      }
      for (const round of [...recent].reverse().concat([...running].reverse())) this.begin(round);
    });
    on("round", this.begin);
    on("step", this.step);
    on("end", this.step);
    this.connect();
  }

  connect() {
    const source = new EventSource("api/live");
    source.onopen = () => this.become("live");
    source.onerror = () => {
      this.become("reconnecting");
      // After an answer that is no stream, such as one of a proxy, it does not try again.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), RETRY);
    };
    for (const [type, f] of this.handlers) source.addEventListener(type, f);
  }

  become(state) {
    this.state = state;
    this.tell("connection");
  }

  tell(type, detail = null) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  begin(news) {
    const known = this.rounds.get(news.id);
    const round = Object.assign(known ?? { frames: [] }, news);
    round.heard = performance.now();
    this.frame(round);
    this.rounds.set(round.id, round);
    for (const id of this.rounds.keys()) {
      if (this.rounds.size <= MOST_ROUNDS) break;
      this.rounds.delete(id);
    }
    this.tell("round", round);
  }

  step(news) {
    const round = this.rounds.get(news.id);
    if (!round) return;
    const replies = round.replies.split("");
    for (const change of news.changes ? news.changes.split(" ") : []) {
      replies[Number(change.slice(0, -1))] = change.slice(-1);
    }
    round.replies = replies.join("");
    round.elapsed = news.elapsed;
    round.targetWeight = news.targetWeight;
    round.outcome = news.outcome ?? "";
    round.heard = performance.now();
    this.frame(round);
    this.tell("round", round);
  }

  frame(round) {
    const last = round.frames.at(-1);
    if (last && last.replies === round.replies && last.elapsed === round.elapsed) return;
    if (round.frames.length < MOST_FRAMES) round.frames.push({ elapsed: round.elapsed, replies: round.replies });
    else round.frames[MOST_FRAMES - 1] = { elapsed: round.elapsed, replies: round.replies };
  }

  /** The validators of a round, heaviest first, each with its index in replies. */
  validators(round) {
    let set = this.sets.get(round.set);
    if (!set) {
      set = fetch(`api/sets/${round.set}`).then(async (response) => {
        if (!response.ok) throw new Error("the validators of this round are not known any more");
        const { validators } = await response.json();
        return validators.map((v, index) => ({ ...v, index })).sort((a, b) => Number(b.weight) - Number(a.weight));
      });
      set.catch(() => this.sets.delete(round.set));
      this.sets.set(round.set, set);
      if (this.sets.size > 16) this.sets.delete(this.sets.keys().next().value);
    }
    return set;
  }
}

/** Now, in a round that goes on. */
export function elapsed(round) {
  return round.outcome ? round.elapsed : round.elapsed + performance.now() - round.heard;
}
