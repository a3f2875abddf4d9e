import type { Method, OperationError, ParamsOf, Report, ResultOf } from "@sallyport/agent-protocol";
import type { HostVolumes } from "../dhv/index.ts";

/** What a request brought that is never written down. */
export type Secrets = Readonly<Record<string, string>>;

export type Outcome<T extends object> =
  | ({ readonly ok: true } & Readonly<T>)
  | ({ readonly ok: false } & Readonly<OperationError>);

export type Handlers = {
  readonly [M in Method]: (params: ParamsOf<M>, secrets: Secrets) => Promise<Outcome<ResultOf<M>>>;
};

/** @param look looks at the whole node anew */
export function handlersOf(hostVolumes: HostVolumes, look: () => Promise<Report>): Handlers {
  return {
    "dhv.create": (volume) => hostVolumes.create(volume),
    "dhv.register": async (volume) => {
      const registered = await hostVolumes.register(volume);
      return registered.ok ? { ok: true } : registered;
    },
    "dhv.delete": (volume) => hostVolumes.delete(volume),
    "agent.fingerprint": async () => ({ ok: true, ...(await look()) }),
  };
}
