/** Longest wait, and the usual pause between two polls, in milliseconds. */
const TIMEOUT = 60_000
const PAUSE = 20

/**
 * Waits until `condition` is true, at most a minute. For what no event announces, such as
 * the end of another process. One that starts a process needs longer pauses.
 */
export async function until(condition: () => boolean | Promise<boolean>, pause = PAUSE): Promise<void> {
  const end = performance.now() + TIMEOUT
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited for ${TIMEOUT} ms in vain`)
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

/** Waits until a server answers a request well. */
export async function untilServed(url: string): Promise<void> {
  await until(() =>
    fetch(url)
      .then(({ ok }) => ok)
      .catch(() => false),
  )
}
