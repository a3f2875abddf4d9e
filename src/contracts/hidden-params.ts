/**
 * What of an operation's parameters is as sensitive as secrets, though it travels among them: flags of mounts, and what the
 * controller of a plugin tells its node service. It is stored sealed only.
 */
export interface HiddenParams {
  readonly mountFlags?: readonly string[];
  readonly publishContext?: Readonly<Record<string, string>>;
}

type Params = Readonly<Record<string, unknown>>;
type Mount = { readonly mountFlags?: readonly string[] } | null | undefined;

/** What may lie open, and what is to be sealed; null when there is nothing to seal. */
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

/** Parameters as they were given. */
export function revealed(open: Params, { mountFlags, publishContext }: HiddenParams): Params {
  return {
    ...open,
    ...(mountFlags && { mount: { ...(open["mount"] as object), mountFlags } }),
    ...(publishContext && { publishContext }),
  };
}
