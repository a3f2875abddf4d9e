/**
 * Sensitive parameters of an operation: mount flags and the publish context of a controller plugin. Stored sealed only.
 */
export interface HiddenParams {
  readonly mountFlags?: readonly string[];
  readonly publishContext?: Readonly<Record<string, string>>;
}

type Params = Readonly<Record<string, unknown>>;
type Mount = { readonly mountFlags?: readonly string[] } | null | undefined;

/** Splits parameters into plain and sensitive ones; null when none is sensitive. */
export function hiding(params: Params): [open: Params, hidden: HiddenParams | null] {
  const mount = params["mount"] as Mount;
  const publishContext = params["publishContext"] as HiddenParams["publishContext"];
  const flags = mount?.mountFlags?.length ? mount.mountFlags : null;
  const context = publishContext && Object.keys(publishContext).length > 0 ? publishContext : null;
  if (!flags && !context) return [params, null];
  return [
    { ...params, ...(flags && { mount: { ...mount, mountFlags: [] } }), ...(context && { publishContext: {} }) },
    { ...(flags && { mountFlags: flags }), ...(context && { publishContext: context }) },
  ];
}

/** Joins plain and sensitive parameters. */
export function revealed(open: Params, { mountFlags, publishContext }: HiddenParams): Params {
  return {
    ...open,
    ...(mountFlags && { mount: { ...(open["mount"] as object), mountFlags } }),
    ...(publishContext && { publishContext }),
  };
}
