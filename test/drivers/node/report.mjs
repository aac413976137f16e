// Prints the SQLSTATE that a piece of work ends with.
export async function report(check, work) {
  try {
    await work()
    console.log(`${check}: 00000`)
  } catch (e) {
    console.log(`${check}: ${e.code ?? e}`)
  }
}

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Runs an asking function again and again until the work has ended: a cancel request may come before the statement.
export async function until(work, ask) {
  let ended = false
  const mark = () => (ended = true)
  work.then(mark, mark)
  while (!ended) {
    await wait(50)
    if (!ended) ask()
  }
  return work
}
