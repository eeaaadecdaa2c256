#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../device.h"

enum { STACK = 1 << 20 };

typedef struct job {
    moon_part part;
    void *context;
    int64_t parts;
    _Atomic int64_t next;
    int wanted; /* workers that may still join */
    int active; /* workers that are at it */
} job;

/* all under the lock; the job lives on its caller's stack, and workers touch it only between joining and leaving */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    job *job;     /* the one that is shared now */
    int workers;  /* started and alive */
    bool handles; /* pthread_atfork has been told */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static _Atomic int threads;
static _Thread_local bool inside; /* a part runs on this thread */

static void work(job *j) {
    bool before = inside;
    inside = true;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (i >= j->parts) break;
        j->part(j->context, i);
    }
    inside = before;
}

static void *worker(void *unused) {
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.job == NULL || pool.job->wanted == 0) pthread_cond_wait(&pool.wake, &pool.lock);
        job *j = pool.job;
        j->wanted--;
        j->active++;
        pthread_mutex_unlock(&pool.lock);
        work(j);
        pthread_mutex_lock(&pool.lock);
        j->wanted = 0; /* nothing is left to join for */
        if (--j->active == 0) pthread_cond_signal(&pool.done);
    }
    return NULL;
}

/* ---- fork: the child has its own thread alone ---- */

static void before_fork(void) { pthread_mutex_lock(&pool.lock); }
static void in_parent(void) { pthread_mutex_unlock(&pool.lock); }
static void in_child(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.job = NULL;
    pool.workers = 0;
    inside = false;
}

/* ---- starting, with the lock held ---- */

static void start(int wanted) {
    if (!pool.handles) pool.handles = pthread_atfork(before_fork, in_parent, in_child) == 0;
    if (!pool.handles) return;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK);
    /* signals are the business of the program's own threads */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t id;
    while (pool.workers < wanted && pthread_create(&id, &attributes, worker, NULL) == 0) pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void alone(int64_t parts, moon_part part, void *context) {
    for (int64_t i = 0; i < parts; i++) part(context, i);
}

void moon_parallel(int64_t parts, moon_part part, void *context) {
    int helpers = moon_host_threads() - 1;
    if (helpers > parts - 1) helpers = (int)(parts - 1);
    if (helpers < 1 || inside) {
        alone(parts, part, context);
        return;
    }
    job j = {.part = part, .context = context, .parts = parts, .wanted = helpers};
    pthread_mutex_lock(&pool.lock);
    bool busy = pool.job != NULL;
    if (!busy) {
        if (pool.workers < helpers) start(helpers);
        pool.job = &j;
        for (int i = 0; i < helpers; i++) pthread_cond_signal(&pool.wake);
    }
    pthread_mutex_unlock(&pool.lock);
    if (busy) {
        alone(parts, part, context);
        return;
    }
    work(&j);
    pthread_mutex_lock(&pool.lock);
    j.wanted = 0;
    while (j.active > 0) pthread_cond_wait(&pool.done, &pool.lock);
    pool.job = NULL;
    pthread_mutex_unlock(&pool.lock);
}

/* ---- how many ---- */

static int default_threads(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    if (text != NULL) {
        char *end;
        long n = strtol(text, &end, 10);
        if (end != text && n >= 1) return n < MOON_MAXTHREADS ? (int)n : MOON_MAXTHREADS;
    }
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        if (n >= 1) return n < MOON_MAXTHREADS ? n : MOON_MAXTHREADS;
    }
#endif
    return 1;
}

int moon_host_threads(void) {
    int n = atomic_load_explicit(&threads, memory_order_relaxed);
    if (n > 0) return n;
    n = default_threads();
    int unset = 0;
    if (!atomic_compare_exchange_strong(&threads, &unset, n)) n = unset;
    return n;
}

void moon_host_set_threads(int n) { atomic_store_explicit(&threads, n, memory_order_relaxed); }
