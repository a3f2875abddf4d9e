/** Why the service lets a client print something else than the client's own server: by command and lines. */
const REASONS: readonly (readonly [reason: string, command: RegExp, lines?: RegExp])[] = [
  [
    "the release, the storage and the built-in parts of this service",
    /status|secrets list|auth list|sys\/mounts$|plugin info/,
  ],
  ["texts name one command line", /secret\/a\/b/, /If using the/],
  ["empty options are shown", /\/tune$/, /^\+ options \[\]$/m],
  ["a missing object answers with an empty list of errors", /patch/, /Raw Message/],
  ["an option that only OpenBao has", /./, /metadata_cas_required|current_metadata_version|token_strictly_bind_ip/],
  ["a field of Vault Enterprise", /role\/|users\//, /^\+ "?alias_metadata/m],
  ["a field that only the command line's own release has", /auth\/jwt|kv metadata/, /./],
  ["a refusal in this service's words, with the field", /./, /^\+ \* ./m],
  ["the root token is the one of a bootstrap", /token lookup/, /display_name|path/],
  ["custom token ids are stored as safely as others", /-id=/, /SHA1|obfuscation|WARNING/],
  ["expired tokens need no tidying", /tidy/],
  ["lists are sorted", /secret\/metadata|scan/],
  ["a list that is not offered", /list secret\/data|list sys\/auth|raft|request-headers/],
  ["audit outputs belong to the deployment", /audit/],
  ["plugins are built in", /plugin/],
  ["namespaces have other ids, no lock and no uuid", /namespace|-namespace=a/],
  ["there are no key shares, and no automatic rotation", /operator|sys\/rotate/],
  ["quotas have further fields", /sys\/quotas/],
  ["groups have no modify_index", /identity\/group/],
  ["help needs a right in a mount", /path-help/],
  ["mount_type is in every answer", /-format=json/, /mount_type/],
  ["request ids are in every answer", /-format=json/, /request_id/],
  ["token lifetimes are rounded up", /token/, /ttl/i],
];

/** The reason of a difference; null when none is known. */
export function reasonOf(command: string, lines: readonly string[]): string | null {
  const text = lines.join("\n");
  return (
    REASONS.find(([, names, shows]) => names.test(command) && (shows === undefined || shows.test(text)))?.[0] ?? null
  );
}
