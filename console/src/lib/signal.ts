/**
 * Shared state: components and effects that read a signal run again after it has changed. A component follows the
 * signals that its last render has read.
 */
import { type Component, options, type VNode } from "preact";

class Reader {
  readonly changed: () => void;
  readonly #followed = new Set<Set<Reader>>();

  constructor(changed: () => void) {
    this.changed = changed;
  }

  follow(readers: Set<Reader>): void {
    readers.add(this);
    this.#followed.add(readers);
  }

  forget(): void {
    for (const readers of this.#followed) readers.delete(this);
    this.#followed.clear();
  }
}

/** The component or effect that runs now. */
let reading: Reader | null = null;

export class Signal<Value> {
  #value: Value;
  readonly #readers = new Set<Reader>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    reading?.follow(this.#readers);
    return this.#value;
  }

  set value(changed: Value) {
    if (Object.is(changed, this.#value)) return;
    this.#value = changed;
    for (const reader of [...this.#readers]) if (this.#readers.has(reader)) reader.changed();
  }

  /** The value, without following it. */
  peek(): Value {
    return this.#value;
  }
}

export const signal = <Value>(value: Value): Signal<Value> => new Signal(value);

/** Runs an effect now and after each change; resolves with the function that ends it. */
export function effect(run: () => void): () => void {
  const reader = new Reader(() => {
    reader.forget();
    const outer = reading;
    reading = reader;
    try {
      run();
    } finally {
      reading = outer;
    }
  });
  reader.changed();
  return () => reader.forget();
}

/** A signal of others' values. It is never given up. */
export function computed<Value>(read: () => Value): Signal<Value> {
  const result = signal(undefined as Value);
  effect(() => {
    result.value = read();
  });
  return result;
}

/** Hooks of the renderer by the names of its build (https://github.com/preactjs/preact/blob/main/mangle.json). */
interface Hooks {
  __r?: (node: Rendered) => void;
  __e?: (...failure: unknown[]) => void;
  diffed?: (node: Rendered) => void;
  unmount?: (node: Rendered) => void;
}

type Rendered = VNode & { readonly __c?: Component | null };

const hooks = options as unknown as Hooks;
const readers = new WeakMap<Component, Reader>();
const { __r: rendering, __e: failed, diffed, unmount } = hooks;

hooks.__r = (node) => {
  rendering?.(node);
  const component = node.__c;
  if (!component) return;
  reading = readers.get(component) ?? new Reader(() => component.setState({}));
  readers.set(component, reading);
  reading.forget();
};
hooks.diffed = (node) => {
  reading = null;
  diffed?.(node);
};
hooks.__e = (...failure) => {
  reading = null;
  failed?.(...failure);
};
hooks.unmount = (node) => {
  if (node.__c) readers.get(node.__c)?.forget();
  unmount?.(node);
};
