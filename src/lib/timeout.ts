/** Resolves with the promise's value, or rejects after `ms`. @throws Error with the message `late` on timeout */
export async function within<T>(ms: number, work: Promise<T>, late = `no answer within ${ms} ms`): Promise<T> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(new Error(late)), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
