;= move
;! Copies eight elements at a time, the last eight overlapping; fewer one by one. In the words of `string.Template`.

define internal void @${name}(ptr %to, ptr %from, i64 %count) noinline nounwind {
entry:
  %last = sub i64 %count, 8
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %some
some:
  %wide = icmp uge i64 %count, 8
  br i1 %wide, label %eight, label %one
eight:
  %i = phi i64 [ 0, %some ], [ %inext, %eight ]
  %b = getelementptr ${kind}, ptr %to, i64 %i
  ${load_wide}
  store <8 x ${kind}> ${value}8, ptr %b, align ${align}
  %i8 = add i64 %i, 8
  %inext = call i64 @llvm.umin.i64(i64 %i8, i64 %last)
  %more8 = icmp ult i64 %i, %last
  br i1 %more8, label %eight, label %done
one:
  %j = phi i64 [ 0, %some ], [ %jnext, %one ]
  %d = getelementptr ${kind}, ptr %to, i64 %j
  ${load}
  store ${kind} ${value}1, ptr %d, align ${align}
  %jnext = add i64 %j, 1
  %more1 = icmp ult i64 %jnext, %count
  br i1 %more1, label %one, label %done
done:
  ret void
}
