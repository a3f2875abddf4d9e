/** Reads headers by name, in any spelling. */
export interface HeaderReader {
  get(name: string): string | null;
  has(name: string): boolean;
  keys(): Iterable<string>;
}

/**
 * The headers of a request, read once. `Headers.get` leaves JavaScript for the runtime each time, and a request is
 * asked for a dozen headers, most of which it does not have.
 */
export class RequestHeaders implements HeaderReader {
  readonly #values = new Map<string, string>();

  constructor(headers: Headers) {
    for (const [name, value] of headers) this.#values.set(name, value);
  }

  get(name: string): string | null {
    return this.#values.get(name.toLowerCase()) ?? null;
  }

  has(name: string): boolean {
    return this.#values.has(name.toLowerCase());
  }

  keys(): Iterable<string> {
    return this.#values.keys();
  }
}
