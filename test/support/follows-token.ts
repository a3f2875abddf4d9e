/** Paths that apply to the namespace of a token, for any header: see test/workers/token-namespaces.test.ts. */
export const FOLLOWS_TOKEN = /^\/auth\/token\/((lookup|renew|revoke)(-self)?|revoke-orphan)$/;
