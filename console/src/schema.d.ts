/** Address of the list of guides (scripts/guides.ts). */
declare module "guides:index" {
  const address: string;
  export default address;
}

/** Address of the schemas of destinations' forms (scripts/build-assets.ts). */
declare module "forms:destinations" {
  const address: string;
  export default address;
}

/** Address of the rights of the cluster API, by operations (scripts/build-assets.ts). */
declare module "rights:cluster" {
  const address: string;
  export default address;
}

/** The schema of a request body, from docs/openapi.json (scripts/build-assets.ts). */
declare module "schema:*" {
  import type { JsonSchema } from "./lib/schema.ts";

  const schema: JsonSchema;
  export default schema;
}
