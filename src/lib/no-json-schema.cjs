// Takes the place of zod's conversion to JSON Schema in a deployed Worker (`alias` in wrangler.toml). The Worker never
// converts a schema: scripts/openapi.ts does, outside of it.
module.exports = {};
