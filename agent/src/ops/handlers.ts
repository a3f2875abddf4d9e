import type { Method, OperationError, ParamsOf, Report, ResultOf } from "@sallyport/agent-protocol";
import type { Csi } from "../csi/index.ts";
import type { HostVolumes } from "../dhv/index.ts";

/** What a request brought that is never written down. */
export type Secrets = Readonly<Record<string, string>>;

export type Outcome<T extends object> =
  | ({ readonly ok: true } & Readonly<T>)
  | ({ readonly ok: false } & Readonly<OperationError>);

/** One run of an operation. */
export interface Run {
  readonly secrets: Secrets;
  /** When the service stops waiting for it, from now, in milliseconds. */
  readonly limitMs: number;
  /** It was begun before, and how that ended is not known. */
  readonly again: boolean;
}

export type Handlers = {
  readonly [M in Method]: (params: ParamsOf<M>, run: Run) => Promise<Outcome<ResultOf<M>>>;
};

/** @param look looks at the whole node anew */
export function handlersOf(hostVolumes: HostVolumes, csi: Csi, look: () => Promise<Report>): Handlers {
  return {
    ...csi.handlers,
    "dhv.create": (volume) => hostVolumes.create(volume),
    "dhv.register": async (volume) => {
      const registered = await hostVolumes.register(volume);
      return registered.ok ? { ok: true } : registered;
    },
    "dhv.delete": (volume) => hostVolumes.delete(volume),
    "agent.fingerprint": async () => ({ ok: true, ...(await look()) }),
  };
}
