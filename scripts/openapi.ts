/**
 * Writes docs/openapi.json, which the service serves. Run it whenever a route, a schema or a description of one changes; a test
 * compares.
 */
import { writeFileSync } from "node:fs";
import { registerHooks } from "node:module";

const TEXT = 'export default ""';
const RUNTIME = "export class DurableObject {} export const env = {}; export const waitUntil = () => {};";

// The route table leads to the objects, which only the Workers runtime can run, and to the texts that it serves; neither is
// looked at here.
registerHooks({
  resolve: (specifier, context, next) => {
    const source = specifier === "cloudflare:workers" ? RUNTIME : /\.(html|json)$/.test(specifier) ? TEXT : null;
    const isExample = specifier.endsWith("/examples.json");
    if (source === null || isExample) return next(specifier, context);
    return { url: `data:text/javascript,${source}`, shortCircuit: true };
  },
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
