/** An event as a browser's EventSource dispatches it (WHATWG HTML 9.2.6), written from the standard for tests. */
export interface SourceEvent {
  readonly type: string;
  readonly data: string;
  readonly lastEventId: string;
}

export class EventSourceParser {
  /** The Last-Event-ID that the browser sends when it reconnects. */
  lastEventId = "";
  /** Reconnect delay in ms; null until the stream sends it. */
  retry: number | null = null;
  #rest = "";
  #begun = false;
  #id = "";
  #type = "";
  #data: string[] = [];

  /** Takes the next characters of a stream, cut anywhere, and returns the events that they complete. */
  feed(text: string): SourceEvent[] {
    this.#rest += text;
    if (!this.#begun && this.#rest !== "") {
      this.#begun = true;
      if (this.#rest.startsWith("\ufeff")) this.#rest = this.#rest.slice(1);
    }
    const events: SourceEvent[] = [];
    for (;;) {
      const end = this.#rest.search(/[\r\n]/);
      // A carriage return at the very end may be half of a line's end.
      if (end < 0 || (this.#rest[end] === "\r" && end === this.#rest.length - 1)) return events;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
      if (line !== "") this.#field(line);
      else {
        const event = this.#dispatch();
        if (event) events.push(event);
      }
    }
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#type = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retry = Number(value);
  }

  #dispatch(): SourceEvent | null {
    this.lastEventId = this.#id;
    const [data, type] = [this.#data.join("\n"), this.#type || "message"];
    const empty = this.#data.length === 0;
    this.#data = [];
    this.#type = "";
    return empty ? null : { type, data, lastEventId: this.lastEventId };
  }
}
