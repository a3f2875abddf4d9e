declare namespace Cloudflare {
  interface Env {
    TEST_MIGRATIONS: import("cloudflare:test").D1Migration[];
    TEST_DOUBLES: import("./doubles/setup.ts").DoubleUrls;
    TEST_STAND_INS: import("./doubles/setup.ts").StandInPlaces;
    TEST_CLOUD_A: { url: string; accessKeyId: string; secretAccessKey: string };
  }
}

declare module "*.md?raw" {
  const text: string;
  export default text;
}

/** A suite that runs again through relays: Vite takes another query for another module. */
declare module "*?through-relays";

/** Vite's import of files by pattern, as texts. */
interface ImportMeta {
  glob<T>(pattern: string, options: { query: string; import: string; eager: true }): Record<string, T>;
}
