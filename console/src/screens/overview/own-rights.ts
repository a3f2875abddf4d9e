import { api } from "../../api/client.ts";
import { caller } from "../../api/session.ts";
import { useResource } from "../../lib/resource.ts";

/** Paths about the whole deployment that the overview shows only to callers who may use them. */
const PATHS = ["sys/snapshot", "sys/notifications/active"] as const;

type Path = (typeof PATHS)[number];

interface OwnRights {
  readonly may: (path: Path, capability: string) => boolean;
  /** Whether the answer is there, or will never be. */
  readonly isKnown: boolean;
}

/** The capabilities of the caller on these paths, asked for once; none until the answer. */
export function useOwnRights(): OwnRights {
  // A token of another namespace has no rights in the root namespace.
  const isElsewhere = caller.value?.namespace !== "";
  const rights = useResource(
    ["own-rights", caller.value?.accessor],
    async (signal) => {
      const body = { paths: [...PATHS] };
      const read = { namespace: "", body, quiet: true, signal };
      return (await api("POST /v1/sys/capabilities-self", read)).data as Readonly<Record<string, unknown>>;
    },
    { skip: isElsewhere },
  );
  return {
    isKnown: isElsewhere || rights.value !== undefined || rights.error !== null,
    may: (path, capability) => {
      const found = rights.value?.[path];
      return Array.isArray(found) && (found.includes("root") || found.includes(capability));
    },
  };
}
