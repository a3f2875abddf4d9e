import type { StepResult } from "../../contracts/credential-engine.ts";

/** A client of a provider: each method is one call of a saga. */
type Client<Cloud> = { readonly [K in keyof Cloud]: (...given: never[]) => Promise<StepResult> };

/** One call of a client as a value. */
export type StepOf<Cloud extends Client<Cloud>> = {
  [K in keyof Cloud]: { readonly call: K; readonly args: Parameters<Cloud[K]> };
}[keyof Cloud];

type ValueOf<Cloud extends Client<Cloud>, K extends keyof Cloud> = Extract<
  Awaited<ReturnType<Cloud[K]>>,
  { ok: true }
>["value"];

/** The calls of a client as values, with the types of their arguments and results. */
export const stepsOf = <Cloud extends Client<Cloud>>() => ({
  step: <K extends keyof Cloud>(call: K, ...args: Parameters<Cloud[K]>): StepOf<Cloud> =>
    ({ call, args }) as unknown as StepOf<Cloud>,

  /** Casts a step's result to the type of its call; the only such cast. */
  resultOf: <K extends keyof Cloud>(_call: K, value: unknown): ValueOf<Cloud, K> => value as ValueOf<Cloud, K>,

  performStep: (cloud: Cloud, { call, args }: StepOf<Cloud>): Promise<StepResult> =>
    (cloud[call] as unknown as (...given: unknown[]) => Promise<StepResult>).apply(cloud, [...args]),

  /** A set of calls by their names. */
  calls: (...names: readonly (keyof Cloud & string)[]): ReadonlySet<string> => new Set(names),
});
