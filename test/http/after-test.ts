const cleanups: Array<() => unknown> = [];

/** Runs at the end of the test, last registered first. */
export const afterTest = (cleanup: () => unknown) => void cleanups.push(cleanup);

export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
