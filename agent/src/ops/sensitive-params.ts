import * as z from "zod";

/**
 * Mount flags and publish contexts may hold passwords. They are treated like secrets although they are parameters and
 * results: the journal, messages and logs contain none.
 */

type Params = Readonly<Record<string, unknown>>;

const withFlags = z.looseObject({ mount: z.looseObject({ mountFlags: z.array(z.string()).min(1) }) });
const withContext = z.looseObject({
  publishContext: z.record(z.string(), z.string()).refine((context) => Object.keys(context).length > 0),
});

/** The sensitive values of parameters. */
export const sensitiveIn = (params: Params): readonly string[] => [
  ...(withFlags.safeParse(params).data?.mount.mountFlags ?? []),
  ...Object.values(withContext.safeParse(params).data?.publishContext ?? {}),
];

/** Parameters without sensitive values; the same object when there are none. */
export function withoutSensitive(params: Params): Record<string, unknown> {
  const flags = withFlags.safeParse(params).data;
  const context = withContext.safeParse(params).success;
  if (!flags && !context) return params;
  return {
    ...params,
    ...(flags && { mount: { ...flags.mount, mountFlags: [] } }),
    ...(context && { publishContext: {} }),
  };
}

/** Whether a result has a publish context: that of an attachment at the provider. */
export const isSensitive = (result: Params): boolean => withContext.safeParse(result).success;
