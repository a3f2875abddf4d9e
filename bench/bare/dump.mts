/** The rows of one object as a stream, a page at a time, encrypted once with a key that is forgotten. Of no one moment, and of one object. */

export interface DumpPage {
  /** An id, a path and a value each. */
  readonly rows: readonly (readonly (string | number)[])[];
  /** Behind which row the next page begins; null on the last. */
  readonly next: number | null;
}

const IV_BYTES = 12;

export async function dump(page: (after: number) => Promise<DumpPage>): Promise<Response> {
  const key = (await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt"])) as CryptoKey;
  const encoder = new TextEncoder();
  let after: number | null = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (after === null) return controller.close();
        const { rows, next } = await page(after);
        after = next;
        const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
        const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key, encoder.encode(JSON.stringify(rows)));
        controller.enqueue(iv);
        controller.enqueue(new Uint8Array(sealed));
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(stream, {
    headers: { "Content-Type": "application/octet-stream", "Content-Encoding": "identity" },
  });
}
