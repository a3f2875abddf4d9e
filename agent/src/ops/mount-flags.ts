import * as z from "zod";

type Params = Readonly<Record<string, unknown>>;

const withFlags = z.looseObject({ mount: z.looseObject({ mountFlags: z.array(z.string()).min(1) }) });

/** How a volume is mounted, which may hold passwords: treated like secrets, though it comes with the parameters. */
export const mountFlagsOf = (params: Params): readonly string[] =>
  withFlags.safeParse(params).data?.mount.mountFlags ?? [];

/** Parameters as they may be written down: the same object when there is nothing to leave out. */
export function withoutMountFlags(params: Params): Record<string, unknown> {
  const { data } = withFlags.safeParse(params);
  return data ? { ...params, mount: { ...data.mount, mountFlags: [] } } : params;
}
