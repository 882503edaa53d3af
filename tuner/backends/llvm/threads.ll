;= share
;! Runs one thread's part of one phase of a job.

define internal void @share(ptr %job, i64 %phase, i64 %index, i64 %threads) noinline nounwind {
entry:
  %at = mul i64 %phase, 3
  %fn_at = add i64 %at, 7
  %fn_p = getelementptr i64, ptr %job, i64 %fn_at
  %fn_i = load i64, ptr %fn_p
  %fn = inttoptr i64 %fn_i to ptr
  %n_p = getelementptr i64, ptr %fn_p, i64 1
  %n = load i64, ptr %n_p
  %runs_p = getelementptr i64, ptr %fn_p, i64 2
  %runs = load i64, ptr %runs_p
  %b0 = mul i64 %n, %index
  %begin = udiv i64 %b0, %threads
  %next = add i64 %index, 1
  %e0 = mul i64 %n, %next
  %end = udiv i64 %e0, %threads
  %q0 = getelementptr ptr, ptr %job, i64 0
  %p0 = load ptr, ptr %q0
  %q1 = getelementptr ptr, ptr %job, i64 1
  %p1 = load ptr, ptr %q1
  %q2 = getelementptr ptr, ptr %job, i64 2
  %p2 = load ptr, ptr %q2
  %q3 = getelementptr ptr, ptr %job, i64 3
  %p3 = load ptr, ptr %q3
  %q4 = getelementptr ptr, ptr %job, i64 4
  %p4 = load ptr, ptr %q4
  %q5 = getelementptr ptr, ptr %job, i64 5
  %p5 = load ptr, ptr %q5

  br label %run
run:
  %r = phi i64 [ 0, %entry ], [ %r1, %run ]
  %first = mul i64 %r, %n
  %run_begin = add i64 %first, %begin
  %run_end = add i64 %first, %end
  call void %fn(ptr %p0, ptr %p1, ptr %p2, ptr %p3, ptr %p4, ptr %p5, i64 %run_begin, i64 %run_end)
  %r1 = add i64 %r, 1
  %more = icmp ult i64 %r1, %runs
  br i1 %more, label %run, label %out
out:
  ret void
}
;= pool
;! The functions of the pool: what a thread does, waking the others, and running a job.

${declarations}
${share}
define void @work(ptr %state, i64 %index, i64 %first) nounwind {
entry:
${words}
  %threads = load i64, ptr %threads_p
  br label %idle
idle:
  %seen = phi i64 [ %first, %entry ], [ %new, %run ]
  br label %spin
spin:
  %s = phi i64 [ 0, %idle ], [ %s1, %again ]
  %now = load atomic i64, ptr %state acquire, align 8
  %changed = icmp ne i64 %now, %seen
  br i1 %changed, label %go, label %again
again:
  call void asm sideeffect ${pause}()
  %s1 = add i64 %s, 1
  %tired = icmp ugt i64 %s1, ${spins}
  br i1 %tired, label %sleep, label %spin
sleep:
  %u0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %u1 = ${wait}
  %u2 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %now2 = load atomic i64, ptr %state acquire, align 8
  %changed2 = icmp ne i64 %now2, %seen
  br i1 %changed2, label %go, label %sleep
go:
  %new = load atomic i64, ptr %state acquire, align 8
  %job = load ptr, ptr %job_p
  %stop = icmp eq ptr %job, null
  br i1 %stop, label %out, label %run
run:
  %phase = load i64, ptr %phase_p
  call void @share(ptr %job, i64 %phase, i64 %index, i64 %threads)
  %u3 = atomicrmw add ptr %finished, i64 1 seq_cst
  br label %idle
out:
  ret void
}

define void @wake(ptr %state) nounwind {
${words}
  %u0 = atomicrmw add ptr %state, i64 1 seq_cst
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %call, label %out
call:
  %u1 = ${wake}
  br label %out
out:
  ret void
}

define void @launch(ptr %state, ptr %job) nounwind {
entry:
${words}
  %threads = load i64, ptr %threads_p
  %others = sub i64 %threads, 1
  %phases_p = getelementptr i64, ptr %job, i64 6
  %phases = load i64, ptr %phases_p
  store ptr %job, ptr %job_p
  br label %phase
phase:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %alone = icmp eq i64 %others, 0
  br i1 %alone, label %single, label %many
single:
  call void @share(ptr %job, i64 %i, i64 0, i64 1)
  br label %next
many:
  store i64 %i, ptr %phase_p
  store atomic i64 0, ptr %finished seq_cst, align 8
  call void @wake(ptr %state)
  call void @share(ptr %job, i64 %i, i64 0, i64 %threads)
  br label %wait
wait:
  %w = phi i64 [ 0, %many ], [ %w1, %pause ], [ %w1, %yield ]
  %n = load atomic i64, ptr %finished acquire, align 8
  %all = icmp eq i64 %n, %others
  br i1 %all, label %next, label %hold
hold:
  %w1 = add i64 %w, 1
  %long = icmp ugt i64 %w1, 20000
  br i1 %long, label %yield, label %pause
pause:
  call void asm sideeffect ${pause}()
  br label %wait
yield:
  %u = call i32 @${turn}()
  br label %wait
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %phases
  br i1 %more, label %phase, label %out
out:
  ret void
}
