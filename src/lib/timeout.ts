/** Resolves with the promise's value, or rejects after `ms`. @throws Error with the message `late` on timeout */
export function within<T>(ms: number, work: Promise<T>, late = `no answer within ${ms} ms`): Promise<T> {
  // Not `Promise.race`: every read near its caller waits here.
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(late)), ms);
    work.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (failure: unknown) => {
        clearTimeout(timer);
        reject(failure);
      },
    );
  });
}
