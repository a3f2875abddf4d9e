import * as z from "zod";

type Params = Readonly<Record<string, unknown>>;

const withFlags = z.looseObject({ mount: z.looseObject({ mountFlags: z.array(z.string()).min(1) }) });

/** Mount flags may hold passwords; they are treated like secrets although they are parameters. */
export const mountFlagsOf = (params: Params): readonly string[] =>
  withFlags.safeParse(params).data?.mount.mountFlags ?? [];

/** Parameters without mount flags; the same object when there are none. */
export function withoutMountFlags(params: Params): Record<string, unknown> {
  const { data } = withFlags.safeParse(params);
  return data ? { ...params, mount: { ...data.mount, mountFlags: [] } } : params;
}
