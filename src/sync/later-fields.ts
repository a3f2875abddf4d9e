/**
 * Fields of later releases of upstream that cannot have their effect here, and why. They restrict or replace what a
 * destination does, so a value is refused rather than ignored with a warning.
 * (https://developer.hashicorp.com/vault/api-docs/system/secrets-sync#create-update-an-aws-secrets-manager-destination)
 */

const ADDRESSES =
  "must be empty: a Worker's calls do not state the address they reach; restrict the credentials of the destination to this service at the provider instead";
const IDENTITY = "must be empty: destinations log in with stored credentials, not with identity tokens";

const REFUSED: Readonly<Record<string, string>> = {
  allowed_ipv4_addresses: ADDRESSES,
  allowed_ipv6_addresses: ADDRESSES,
  allowed_ports: "must be empty: the port is that of the destination's URL, and 443 without one",
  disable_strict_networking: "must be false: calls go by https only, and redirects are never followed",
  identity_token_audience: IDENTITY,
  identity_token_key: IDENTITY,
  identity_token_ttl: IDENTITY,
  service_account_email: IDENTITY,
  kms_key_id: "must be empty: objects are encrypted with the provider's default key",
  replica_regions: "must be empty: set up replication of the objects at the provider",
};

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  value === false ||
  value === 0 ||
  value === "false" ||
  (Array.isArray(value) && value.length === 0);

/** The refusal of a field of a body that its type does not have; null when there is none. */
export function refusedLaterField(body: Readonly<Record<string, unknown>>, known: ReadonlyMap<string, null>) {
  const [field] = Object.keys(REFUSED).filter(
    (name) => Object.hasOwn(body, name) && !known.has(name) && !isEmpty(body[name]),
  );
  return field === undefined ? null : `${field}: ${REFUSED[field]}`;
}
