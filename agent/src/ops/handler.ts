import type { Method, OperationError, ParamsOf, ResultOf } from "@sallyport/agent-protocol";

/** Secrets of a request; never written to disk. */
export type Secrets = Readonly<Record<string, string>>;

export type Outcome<T extends object> =
  | ({ readonly ok: true } & Readonly<T>)
  | ({ readonly ok: false } & Readonly<OperationError>);

/** One run of an operation. */
export interface Run {
  readonly secrets: Secrets;
  /** Milliseconds from now until the service stops waiting. */
  readonly limitMs: number;
  /** An earlier run began and its outcome is unknown. */
  readonly again: boolean;
}

export type Handlers = {
  readonly [M in Method]: (params: ParamsOf<M>, run: Run) => Promise<Outcome<ResultOf<M>>>;
};
