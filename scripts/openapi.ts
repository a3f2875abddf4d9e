/**
 * Writes docs/openapi.json, which the service serves. Run it whenever a route, a schema or a description of one
 * changes; a test compares.
 */
import { writeFileSync } from "node:fs";
import { registerHooks } from "node:module";

const RUNTIME =
  "export class DurableObject {} export const env = {}; export const waitUntil = () => {}; export const tracing = {};";

// The route table leads to the objects, which run in the Workers runtime only; they are not used here.
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "cloudflare:workers"
      ? { url: `data:text/javascript,${RUNTIME}`, shortCircuit: true }
      : next(specifier, context),
});

// Named by a variable, because its types are those of the Workers runtime.
const module = new URL("../src/openapi/document.ts", import.meta.url).href;
const { documentText, openApiDocument } = (await import(module)) as {
  documentText: (document: object) => string;
  openApiDocument: () => object;
};
const text = documentText(openApiDocument());
writeFileSync("docs/openapi.json", text);
console.log(`docs/openapi.json: ${text.length} characters`);
